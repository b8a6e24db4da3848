// Rows C16 to C19 and C25 with real processes: what is inherited, and who outlives whom.
#include <fstream>
#include <thread>

#include <arpa/inet.h>
#include <catch2/catch.hpp>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/serve/supervisor/defence_switch.hpp"
#include "tests/serve/supervisor/harness.hpp"
#include "tests/serve/supervisor/host_process.hpp"

using namespace strata::serve;
using namespace strata::serve::tests;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// CPU time of this process, ms.
long own_cpu_ms() {
    rusage usage{};
    ::getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000 +
           (usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1000;
}

bool can_bind(int port) {
    const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = ::htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    const bool bound = ::bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0 &&
                       ::listen(fd, 1) == 0;
    ::close(fd);
    return bound;
}

int oom_score_of(std::int64_t pid) {
    std::ifstream in("/proc/" + std::to_string(pid) + "/oom_score_adj");
    int score = 0;
    in >> score;
    return score;
}

}  // namespace

TEST_CASE("the engine inherits no descriptor but its three", "[C16]") {
    std::vector<int> foreign;
    // Not close-on-exec, the lowest numbers there are: where a library would leave them open.
    for (int i = 0; i < 4; ++i) foreign.push_back(::open("/dev/null", O_RDONLY));
    foreign.push_back(::dup2(foreign[0], 700));
    Harness harness({"fds", "ready", "serve"});
    const std::string listed = harness.stderr_after("fds");
    for (const int fd : foreign) ::close(fd);
    INFO("row C16: exactly 0 1 2");
    REQUIRE(listed == " 0 1 2");
    CHECK(harness.finish().find("child") == std::string::npos);
}

TEST_CASE("the port of a killed server is free at once", "[C16]") {
    const strata::tests::ProcessEpilogue epilogue;
    {
        // A process of the engine's that lives on: what it inherited stays open.
        HostProcess host(
            {"--listen", "--grandchild", "grandchild 60000 escape", "ready", "hang 20000"});
        const auto port = host.wait_for("port ");
        const auto engine = host.wait_for("engine ");
        const auto grandchild = host.wait_for("grandchild ");
        REQUIRE(port);
        REQUIRE(engine);
        REQUIRE(grandchild);
        host.adopt(std::stoi(*engine));
        host.adopt(std::stoi(*grandchild));
        host.send_signal(SIGKILL);
        REQUIRE(host.wait_end());
        const bool bound = can_bind(std::stoi(*port));
        INFO("row C16: the listening socket was not the engine's");
        REQUIRE(bound);
    }
    CHECK(epilogue.leftovers() == "");
}

TEST_CASE("no engine outlives a killed server in any phase", "[C17]") {
    struct Phase {
        std::string name;
        std::string word;  // of the host, after which it is killed
        std::vector<std::string> script;
    };
    const std::string deaf = "ignore eof quit TERM PIPE";
    const std::vector<Phase> phases{
        {"load", "engine ", {deaf, "load 60000"}},
        {"idle", "ready", {deaf, "ready", "hang 60000"}},
        {"prefill",
         "progress",
         {deaf, "ready", "await GEN", "line PP 1 3 1.0 1.0 id=$ID", "hang 60000"}},
        {"decode, in a long kernel",
         "token",
         {deaf, "ready", "await GEN", "tokens 1", "spin 60000"}},
    };
    const strata::tests::ProcessEpilogue epilogue;
    for (const Phase& phase : phases) {
        std::vector<std::string> arguments{"--requests", "1"};
        arguments.insert(arguments.end(), phase.script.begin(), phase.script.end());
        HostProcess host(arguments);
        const auto engine = host.wait_for("engine ");
        REQUIRE(engine);
        host.adopt(std::stoi(*engine));
        if (phase.word != "engine ") REQUIRE(host.wait_for(phase.word));
        host.send_signal(SIGKILL);
        REQUIRE(host.wait_end());
        INFO("row C17: " << phase.name);
        REQUIRE(goes(std::stoi(*engine)));
    }
    CHECK(epilogue.leftovers() == "");
}

TEST_CASE("row C17 an engine that is blocked in a write does not outlive a killed server") {
    const strata::tests::ProcessEpilogue epilogue;
    {
        HostProcess host({"ignore eof quit TERM PIPE", "ready", "sleep 300",
                          "flood stdout 100000000", "hang 60000"});
        const auto engine = host.wait_for("engine ");
        REQUIRE(engine);
        host.adopt(std::stoi(*engine));
        REQUIRE(host.wait_for("ready"));
        host.send_signal(SIGSTOP);
        std::this_thread::sleep_for(milliseconds(500));
        host.send_signal(SIGKILL);
        REQUIRE(host.wait_end());
        CHECK(goes(std::stoi(*engine)));
    }
    CHECK(epilogue.leftovers() == "");
}

TEST_CASE("a server that dies between fork and the death signal leaves no engine", "[C17]") {
    constexpr int kPauseMs = 3000;  // the server dies within it, on a loaded machine, too
    const strata::tests::ProcessEpilogue epilogue;
    {
        HostProcess host({"ignore eof quit TERM", "hang 60000"},
                         {"STRATA_TEST_PAUSE_MS=" + std::to_string(kPauseMs)});
        const auto end = std::chrono::steady_clock::now() + late();
        pid_t child = 0;
        while (child == 0 && std::chrono::steady_clock::now() < end) {
            std::this_thread::sleep_for(milliseconds(5));
            child = host.first_child();
        }
        REQUIRE(child != 0);
        host.adopt(child);
        host.send_signal(SIGKILL);
        REQUIRE(host.wait_end());
        const bool lived = strata::tests::process_lives(child);
        INFO("row C17: the child compares its parent with the one recorded before the fork");
        REQUIRE(lived);
        REQUIRE(goes(child));
    }
    CHECK(epilogue.leftovers() == "");
}

TEST_CASE("an engine that closes its output is ended and its request fails", "[C18]") {
    Harness harness({"load 0", "ready", "await GEN", "tokens 1", "close stdout", "hang 60000"});
    const auto request = harness.submit(5);
    REQUIRE(harness.run_until([&] { return !request->tokens.empty(); }));
    const long before = own_cpu_ms();
    const bool ended = harness.run_until([&] { return request->ended(); });
    const long spent = own_cpu_ms() - before;
    INFO("row C18: end of output is an end");
    REQUIRE(ended);
    CHECK(request->failure->text.find("it closed its output") != std::string::npos);
    // Waiting at a closed pipe must not spin: a tenth of the wait is far more than turning takes.
    CHECK(spent < 300 * kPatience);
    CHECK(harness.finish() == "");
}

TEST_CASE("an engine that closes its input is ended at the next write", "[C18]") {
    Harness harness({"load 0", "ready", "close stdin", "hang 60000"});
    REQUIRE(harness.run_until_ready());
    harness.run_for(milliseconds(100));
    const auto request = harness.submit(5);
    INFO("row C18: a write error is an end");
    REQUIRE(harness.run_until([&] { return request->ended(); }));
    CHECK(request->failure->text.find("it closed its input") != std::string::npos);
    CHECK(harness.finish() == "");
}

TEST_CASE("end of input alone ends an engine in order in every phase") {
    const std::string phase = GENERATE("idle", "prefill", "decode");
    SupervisorConfig config = quick_config({"ignore quit TERM", "ready", "serve"});
    config.quit_grace = seconds(60);
    if (phase != "idle") {
        config.command.arguments.insert(
            config.command.arguments.end(),
            {phase == "prefill" ? "--prompt-per-second" : "--tokens-per-second", "1"});
    }
    Harness harness(config);
    REQUIRE(harness.run_until_ready());
    if (phase != "idle") {
        const auto request = harness.submit(50);
        REQUIRE(harness.run_until([&] { return request->ticket.has_value(); }));
        harness.run_for(milliseconds(100));
    }
    const auto begin = std::chrono::steady_clock::now();
    CHECK(harness.finish() == "");
    CHECK(std::chrono::steady_clock::now() - begin < late());
    CHECK(harness.supervisor == nullptr);
    CHECK(harness.log.events.back().find("exited with status 0") != std::string::npos);
}

TEST_CASE("an engine that ignores everything is killed with its group", "[C19]") {
    Harness harness({"ignore eof quit TERM ABRT", "grandchild 60000", "ready", "hang 60000"});
    const std::string grandchild = harness.stderr_after("grandchild ");
    REQUIRE(harness.run_until_ready());
    const auto engine = static_cast<pid_t>(harness.supervisor->view().engine_pid);
    bool stopped = false;
    harness.supervisor->shut_down([&] { stopped = true; });
    const bool in_time = harness.run_until([&] { return stopped; });
    if (!in_time) ::kill(-engine, SIGKILL);
    INFO("row C19: QUIT, TERM, then KILL to the whole group");
    REQUIRE(in_time);
    CHECK(goes(std::stoi(grandchild)));
    CHECK(harness.finish() == "");
}

TEST_CASE("shut_down twice ends a stubborn engine at once") {
    SupervisorConfig config = quick_config({"ignore eof quit TERM ABRT", "ready", "hang 60000"});
    config.quit_grace = seconds(60);
    Harness harness(config);
    REQUIRE(harness.run_until_ready());
    harness.supervisor->shut_down([] {});
    const auto begin = std::chrono::steady_clock::now();
    CHECK(harness.finish() == "");
    CHECK(std::chrono::steady_clock::now() - begin < late());
}

TEST_CASE("a supervisor that is destroyed with a running engine reaps it") {
    Harness harness({"ignore eof quit TERM ABRT", "ready", "hang 60000"});
    REQUIRE(harness.run_until_ready());
    const auto engine = static_cast<pid_t>(harness.supervisor->view().engine_pid);
    harness.supervisor.reset();
    CHECK_FALSE(strata::tests::process_lives(engine));
    harness.loop->restart();
    harness.loop->poll();
    harness.launcher.reset();
    harness.time.reset();
    harness.loop.reset();
    CHECK(harness.epilogue.leftovers() == "");
}

TEST_CASE("the engine is the likelier victim of a memory shortage", "[C25]") {
    Harness harness({"ready", "serve"});
    REQUIRE(harness.run_until_ready());
    const int engine = oom_score_of(harness.supervisor->view().engine_pid);
    INFO("row C25: its score is above ours");
    CHECK(engine > oom_score_of(::getpid()));
    CHECK(harness.finish() == "");
}
