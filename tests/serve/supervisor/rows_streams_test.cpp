// Rows C1, C2, C4, C5, C7 and C8 with real processes: what goes through the pipes.
#include <fstream>

#include <catch2/catch.hpp>
#include <signal.h>
#include <sys/wait.h>

#include "tests/serve/supervisor/defence_switch.hpp"
#include "tests/serve/supervisor/harness.hpp"
#include "tests/serve/supervisor/host_process.hpp"

using namespace strata::serve;
using namespace strata::serve::tests;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// Resident memory of this process, MiB.
long resident_mib() {
    std::ifstream in("/proc/self/statm");
    long total = 0;
    long resident = 0;
    in >> total >> resident;
    return resident * 4 / 1024;
}

// What an engine writes for request `id`, with T lines whose tokens are the id and their number.
std::string transcript(int id) {
    const std::string tail = " id=" + std::to_string(id) + "\\n";
    std::string text = "RESUME 0" + tail + "PP 3 3 1.5 2000.0" + tail;
    for (int k = 0; k < 3; ++k) text += "T " + std::to_string(1000 * id + k) + tail;
    return text + "DONE 3 3 1.5 2.5 length 0 0 0 0 0 0 0 0 3" + tail;
}

}  // namespace

TEST_CASE("a transcript cut at any byte gives the same messages", "[C1]") {
    // The cut never falls inside the two characters of an escape: that is one byte on the wire.
    std::vector<std::string> script{"ready"};
    int requests = 0;
    for (std::size_t cut = 1;; ++cut) {
        const std::string text = transcript(requests + 1);
        if (cut >= text.size()) break;
        if (text[cut] == 'n' && text[cut - 1] == '\\') continue;
        script.insert(script.end(), {"await GEN", "raw " + text.substr(0, cut), "hang 2",
                                     "raw " + text.substr(cut)});
        ++requests;
    }
    SupervisorConfig config = quick_config(script);
    config.desk.queue_max = static_cast<std::size_t>(requests);
    Harness harness(config);
    for (int i = 0; i < requests; ++i) harness.submit(3);
    const auto& last = harness.listeners.back();
    harness.run_until([&] { return last->ended(); }, 2 * late());
    for (const auto& request : harness.listeners) {
        INFO("row C1: request " << request->id << " of " << requests);
        const auto first = static_cast<std::int32_t>(request->id) * 1000;
        REQUIRE(request->tokens == std::vector<std::int32_t>{first, first + 1, first + 2});
        REQUIRE(request->done);
        CHECK(request->done->generated == 3);
        CHECK(request->progress.size() == 1);
    }
    CHECK(harness.finish() == "");
}

TEST_CASE("a DONE without its line end does not complete a request", "[C1]") {
    Harness harness({"ready", "await GEN", "tokens 2",
                     "raw DONE 2 3 1.0 1.0 length 0 0 0 0 0 0 0 0 3 id=$ID", "exit 0"});
    const auto request = harness.submit(2);
    INFO("row C1: bytes behind the last LF are never a message");
    REQUIRE(harness.run_until([&] { return request->ended(); }));
    REQUIRE(request->failure);
    CHECK(request->failure->kind == FailureKind::engine_died);
    CHECK(request->tokens.size() == 2);
    CHECK(harness.finish() == "");
}

TEST_CASE("foreign text between the lines is counted and dropped", "[C2]") {
    Harness harness({"line [extension] loaded 3 kernels", "line DONE", "load 0", "ready", "line",
                     "await GEN", "line 2024-01-01 WARN low memory", "tokens 2",
                     "line DONE 2 3 1.0 1.0 length 0 0 0 0 0 0 0 0 3 id=999", "line T 77 id=999",
                     "line T 77", "line ready", "raw \\x00\\xFFT 1 id=$ID\\n", "tokens 1", "done",
                     "serve"});
    const auto request = harness.submit(3);
    INFO("row C2: banners cost nobody anything");
    REQUIRE(harness.run_until([&] { return request->ended(); }));
    REQUIRE(request->done);
    CHECK(request->tokens.size() == 3);
    CHECK(harness.supervisor->view().foreign_lines == 8);
    CHECK(harness.supervisor->view().epoch == 1);
    CHECK(harness.log.count("of no running request") == 1);
    CHECK(harness.finish() == "");
}

TEST_CASE("a line of a mebibyte is a line and a longer one ends the epoch", "[C4]") {
    Harness harness({"ready", "endless 1048575", "raw \\n", "endless 1048576", "raw \\n",
                     "await GEN", "tokens 1", "endless 1048577", "raw \\n", "serve"});
    const auto request = harness.submit(3);
    INFO("row C4: one byte more than the limit is a protocol error");
    REQUIRE(harness.run_until([&] { return request->ended(); }));
    REQUIRE(request->failure);
    CHECK(request->failure->text.find("a line without end") != std::string::npos);
    CHECK(harness.supervisor->view().foreign_lines == 2);
    CHECK(harness.finish() == "");
}

TEST_CASE("an endless line costs bounded memory", "[C4]") {
    const long before = resident_mib();
    const std::string bytes = std::to_string(64LL * 1024 * 1024 * long_factor());
    Harness harness({"ready", "endless " + bytes, "hang 20000"});
    INFO("row C4: the engine is ended long before its line");
    REQUIRE(harness.run_until([&] { return harness.supervisor->view().epoch == 2; }));
    CHECK(resident_mib() - before < 32);
    CHECK(harness.finish() == "");
}

TEST_CASE("an engine that floods stderr before it reads a long command does not deadlock", "[C5]") {
    const std::string flood = std::to_string(4LL * 1024 * 1024 * long_factor());
    SupervisorConfig config = quick_config({"ready", "hang 200", "flood stderr " + flood, "serve"});
    config.command.arguments.insert(config.command.arguments.end(), {"--context", "100000000"});
    Harness harness(config);
    harness.log.keep_engine_lines = false;
    REQUIRE(harness.run_until_ready());
    strata::protocol::GenCommand command;
    command.max_new = 2;
    command.ids.assign(std::size_t{10} * 1024 * 1024 / 7, 123456);
    auto request = std::make_shared<RecordingListener>();
    request->id = harness.supervisor->submit(std::move(command), request);
    harness.listeners.push_back(request);
    INFO("row C5: ten mebibytes in, a flood out, and the answer comes");
    REQUIRE(harness.run_until([&] { return request->ended(); }, late() * long_factor()));
    CHECK(request->done);
    const EngineView view = harness.supervisor->view();
    CHECK(view.last_lines.size() == 50);
    CHECK(view.dropped_log_lines > 100000);
    CHECK(harness.finish() == "");
}

TEST_CASE("the engine begins with default signals whatever this process ignores", "[C7]") {
    ::signal(SIGPIPE, SIG_IGN);
    ::signal(SIGUSR1, SIG_IGN);
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigaddset(&blocked, SIGUSR2);
    sigset_t before;
    ::pthread_sigmask(SIG_BLOCK, &blocked, &before);
    Harness harness({"status SigIgn SigBlk", "ready", "serve"});
    const std::string ignored = harness.stderr_after("SigIgn:\t");
    const unsigned long mask = ignored.empty() ? ~0UL : std::stoul(ignored, nullptr, 16);
    ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
    ::signal(SIGUSR1, SIG_DFL);
    INFO("row C7: bit 12 is SIGPIPE");
    REQUIRE((mask & (1UL << 12U)) == 0);
    CHECK(mask == 0);
    CHECK(harness.stderr_after("SigBlk:\t") == "0000000000000000");
    CHECK(harness.finish() == "");
}

TEST_CASE("a write to an engine that was just killed does not end this server", "[C7]") {
    const int rounds = 100 * long_factor() / kPatience;
    const strata::tests::ProcessEpilogue epilogue;
    {
        HostProcess host({"--storm", std::to_string(rounds), "load 0", "ready", "serve"});
        const auto survived = host.wait_for("survived ", seconds(60 * long_factor() * kPatience));
        const auto status = host.wait_end();
        INFO("row C7: a broken pipe is the error of one write");
        REQUIRE(survived == std::to_string(rounds));
        REQUIRE(status);
        CHECK(WIFEXITED(*status));
        CHECK(WEXITSTATUS(*status) == 0);
    }
    CHECK(epilogue.leftovers() == "");
}

TEST_CASE("a dead engine is reaped at once although a grandchild holds its pipes", "[C8]") {
    milliseconds fastest{INT32_MAX};
    for (int round = 0; round < 5; ++round) {
        Harness harness({"ready", "await GEN", "grandchild 60000 escape", "tokens 1", "die KILL"});
        const auto request = harness.submit(5);
        const std::string grandchild = harness.stderr_after("grandchild ");
        harness.run_until([&] { return !request->tokens.empty(); });
        const auto begin = std::chrono::steady_clock::now();
        const bool reaped = harness.run_until(
            [&] { return harness.supervisor->view().state == EngineState::restarting; });
        fastest = std::min(fastest, std::chrono::duration_cast<milliseconds>(
                                        std::chrono::steady_clock::now() - begin));
        const bool next =
            reaped && harness.run_until([&] { return harness.supervisor->view().epoch == 2; });
        ::kill(std::stoi(grandchild), SIGKILL);
        goes(std::stoi(grandchild));
        INFO("row C8: reaped by pidfd, drained to the deadline");
        REQUIRE(reaped);
        REQUIRE(next);
        CHECK(request->failure);
        // The second engine does the same for nobody; it waits for a request.
        CHECK(harness.finish() == "");
    }
    CHECK(fastest < milliseconds(100) * kPatience);
}

TEST_CASE("grandchildren of the engine's group die with it") {
    Harness harness({"ready", "grandchild 60000", "await GEN", "exit 1"});
    const std::string grandchild = harness.stderr_after("grandchild ");
    REQUIRE(grandchild != "");
    harness.submit(5);
    REQUIRE(harness.run_until([&] { return harness.supervisor->view().epoch == 2; }));
    CHECK(goes(std::stoi(grandchild)));
    CHECK(harness.finish() == "");
}
