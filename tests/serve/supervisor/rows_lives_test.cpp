// Rows C9, C10, C11, C12, C13 and C21 with real processes: how engines live and die.
#include <algorithm>
#include <atomic>
#include <fstream>
#include <thread>

#include <catch2/catch.hpp>
#include <signal.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/serve/supervisor/defence_switch.hpp"
#include "tests/serve/supervisor/harness.hpp"

using namespace strata::serve;
using namespace strata::serve::tests;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

// A file that counts starts for `on N` and `from N`; gone with the object.
class StartsFile {
  public:
    StartsFile() {
        const int fd = ::mkstemp(path_.data());
        ::close(fd);
    }
    StartsFile(const StartsFile&) = delete;
    StartsFile& operator=(const StartsFile&) = delete;
    ~StartsFile() { ::unlink(path_.c_str()); }
    SupervisorConfig config(std::vector<std::string> script) const {
        SupervisorConfig config = quick_config(std::move(script));
        config.command.arguments.insert(config.command.arguments.end(), {"--starts", path_});
        return config;
    }

  private:
    std::string path_ = "/tmp/strata-starts-XXXXXX";
};

LivenessLimits short_limits() {
    LivenessLimits limits;
    limits.ping_every = milliseconds(200);
    limits.pong = milliseconds(1000) * kPatience;
    limits.progress = milliseconds(2000) * kPatience;
    return limits;
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a stopped engine is ended within the limit and a second", "[C9]") {
    // A loaded machine may be late once, not each time.
    constexpr int kRounds = 5;
    constexpr milliseconds kInTime = (seconds(1) + seconds(1)) * kPatience;
    milliseconds fastest = milliseconds::max();
    for (int round = 0; round < kRounds && fastest >= kInTime; ++round) {
        SupervisorConfig config = quick_config({"ready", "serve"});
        config.liveness = short_limits();
        Harness harness(config);
        REQUIRE(harness.run_until_ready());
        const auto stopped = std::chrono::steady_clock::now();
        ::kill(static_cast<pid_t>(harness.supervisor->view().engine_pid), SIGSTOP);
        INFO("row C9: no PONG ends the engine, and SIGCONT lets the signal through");
        REQUIRE(harness.run_until([&] { return harness.supervisor->view().epoch == 2; }));
        fastest = std::min(fastest, std::chrono::duration_cast<milliseconds>(
                                        std::chrono::steady_clock::now() - stopped));
        CHECK(contains(harness.supervisor->view().failure, "its main loop did not answer"));
        CHECK(contains(harness.supervisor->view().failure, "SIGABRT"));
        CHECK(harness.finish() == "");
    }
    CHECK(fastest < kInTime);
}

TEST_CASE("an engine that answers PING but not its request is ended", "[C9]") {
    SupervisorConfig config = quick_config({"ready", "await GEN", "tokens 1", "sleep 60000"});
    config.liveness = short_limits();
    Harness harness(config);
    const auto request = harness.submit(5);
    INFO("row C9: no progress ends the engine");
    REQUIRE(harness.run_until([&] { return request->ended(); }));
    CHECK(contains(request->failure->text, "its request made no progress"));
    CHECK(harness.finish() == "");
}

TEST_CASE("an engine that is slow but alive is not ended in real time") {
    SupervisorConfig config = quick_config({"ready", "serve"});
    config.command.arguments.insert(config.command.arguments.end(), {"--tokens-per-second", "2"});
    config.liveness = short_limits();
    Harness harness(config);
    const auto request = harness.submit(8);  // longer than each limit, a token well within
    REQUIRE(harness.run_until([&] { return request->ended(); }));
    CHECK(request->done);
    CHECK(harness.supervisor->view().epoch == 1);
    CHECK(harness.finish() == "");
}

TEST_CASE("an engine is not blamed for answers that this server did not read", "[C6]") {
    SupervisorConfig config = quick_config({"ready", "serve"});
    config.liveness = short_limits();
    Harness harness(config);
    REQUIRE(harness.run_until_ready());
    harness.run_for(milliseconds(300));
    std::this_thread::sleep_for(kOwnStall + seconds(1) * kPatience);
    harness.run_for(milliseconds(500));
    INFO("row C6: the same engine answers on");
    REQUIRE(harness.supervisor->view().unexpected_ends == 0);
    const auto request = harness.submit(2);
    REQUIRE(harness.run_until([&] { return request->ended(); }));
    CHECK(request->done);
    CHECK(harness.finish() == "");
}

TEST_CASE("a kill after any token gives exactly one failure and the next request an answer",
          "[C10]") {
    for (int k = 0; k <= 6; ++k) {
        const StartsFile starts;
        Harness harness(starts.config({"load 0", "ready", "on 1", "await GEN",
                                       "tokens " + std::to_string(k), "die KILL", "end"}));
        const auto broken = harness.submit(20);
        const auto queued = harness.submit(3);
        harness.run_until([&] { return broken->ended() && queued->ended(); });
        INFO("row C10: killed after token " << k);
        REQUIRE(broken->failure);
        CHECK(broken->failure->kind == FailureKind::engine_died);
        CHECK(contains(broken->failure->text, "it restarts by itself, send the request again"));
        CHECK(broken->tokens.size() == static_cast<std::size_t>(k));
        CHECK_FALSE(broken->done);
        REQUIRE(queued->done);
        CHECK(queued->ticket->epoch == 2);
        CHECK(queued->tokens.size() == 3);
        CHECK(harness.finish() == "");
    }
}

TEST_CASE("a killed engine is followed by one that answers", "[C10]") {
    Harness harness({"load 0", "ready", "serve"});
    REQUIRE(harness.run_until_ready());
    const auto broken = harness.submit(2000000000);
    REQUIRE(harness.run_until([&] { return broken->ended(); }));
    REQUIRE(broken->failure);
    CHECK(broken->failure->kind == FailureKind::refused);
    const auto running = harness.submit(30000);
    running->at_token = [&] {
        if (running->tokens.size() == 10) {
            ::kill(static_cast<pid_t>(harness.supervisor->view().engine_pid), SIGKILL);
        }
    };
    INFO("row C10: a failure, not a finish");
    REQUIRE(harness.run_until([&] { return running->ended(); }));
    REQUIRE(running->failure);
    const auto next = harness.submit(2);
    REQUIRE(harness.run_until([&] { return next->ended(); }));
    CHECK(next->ticket->epoch == 2);
    CHECK(harness.finish() == "");
}

TEST_CASE("row C12 exit statuses of real engines are told as they were") {
    const int code = GENERATE(0, 1, 4, 5, 70, 127, 255);
    Harness harness(
        {"ready", "await GEN", "tokens 1", "err the last word", "exit " + std::to_string(code)});
    const auto request = harness.submit(3);
    REQUIRE(harness.run_until([&] { return request->ended(); }));
    CHECK(contains(request->failure->text, "exited with status " + std::to_string(code)));
    CHECK(contains(request->failure->text, "while it wrote an answer"));
    CHECK(contains(request->failure->text, "the last word"));
    CHECK(harness.finish() == "");
}

TEST_CASE("row C12 the client hears the dying lines and the log has all") {
    const std::string report = "prompt 3 tokens = 0 reused + 3 read (source cold) in 1 ms";
    Harness harness(
        {"ready", "await GEN", "tokens 1", "err " + report, "err the last word", "die ABRT"});
    const auto request = harness.submit(3);
    REQUIRE(harness.run_until([&] { return request->ended(); }));
    CHECK(contains(request->failure->text, "its last words: the last word;"));
    CHECK_FALSE(contains(request->failure->text, "reused"));
    CHECK(harness.log.engine_lines == std::vector<std::string>{report, "the last word"});
    CHECK(harness.finish() == "");
}

TEST_CASE("row C12 signals that end real engines are told as they were") {
    const int number = GENERATE(SIGSEGV, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGKILL, SIGTERM);
    Harness harness({"ready", "await GEN", "die " + std::to_string(number)});
    const auto request = harness.submit(3);
    REQUIRE(harness.run_until([&] { return request->ended(); }));
    CHECK(contains(request->failure->text, "ended by signal " + std::to_string(number) + " (SIG"));
    CHECK(contains(request->failure->text, "while it read a prompt"));
    CHECK(harness.finish() == "");
}

TEST_CASE("a fatal line and a crash are told as the fatal line", "[C12]") {
    Harness harness(
        {"ready", "await GEN", "line ERR device_lost id=$ID fatal=1 text=gone", "die SEGV"});
    const auto request = harness.submit(3);
    INFO("row C12: the first cause");
    REQUIRE(harness.run_until([&] { return request->ended(); }));
    REQUIRE(contains(request->failure->text, "device_lost: gone"));
    CHECK(harness.finish() == "");
}

TEST_CASE("a lost device costs one request and the next epoch serves", "[C10]") {
    const StartsFile starts;
    Harness harness(
        starts.config({"load 0", "ready", "on 1", "await GEN", "tokens 2",
                       "line ERR device_lost id=$ID fatal=1 text=gone", "exit 5", "end"}));
    const auto broken = harness.submit(20);
    const auto queued = harness.submit(3);
    REQUIRE(harness.run_until([&] { return broken->ended() && queued->ended(); }));
    REQUIRE(broken->failure);
    CHECK(broken->failure->kind == FailureKind::engine_died);
    CHECK(contains(broken->failure->text, "device_lost: gone"));
    CHECK_FALSE(broken->done);
    REQUIRE(queued->done);
    CHECK(queued->ticket->epoch == 2);
    CHECK(queued->tokens.size() == 3);
    CHECK(harness.finish() == "");
}

TEST_CASE("a refused option ends in FAILED with the words of the real process") {
    Harness harness({"err --threads 0 is out of range, allowed are 1 to 256", "exit 2"});
    REQUIRE(
        harness.run_until([&] { return harness.supervisor->view().state == EngineState::failed; }));
    CHECK(contains(harness.supervisor->view().failure, "--threads 0 is out of range"));
    CHECK(harness.supervisor->view().engine_starts == 1);
    CHECK(harness.finish() == "");
}

TEST_CASE("a program that cannot be executed leaves no zombie and a reason at once") {
    struct Row {
        std::string contents;
        ::mode_t mode;
        std::string reason;
    };
    // The head of an ELF program for machine 0xFFFF.
    const std::string foreign(
        "\x7F"
        "ELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xFF\xFF\x01\0\0\0",
        24);
    const Row rows[] = {
        {"", 0, "No such file or directory"},
        {"#!/bin/sh\n", 0600, "Permission denied"},
        {foreign + std::string(100, '\0'), 0700, "it is no program for this machine"},
        {"no program at all", 0700, "it is no program for this machine"},
        {"#!/nowhere/sh\n", 0700, "No such file or directory"}};
    for (const Row& row : rows) {
        std::string path = "/tmp/strata-program-XXXXXX";
        ::close(::mkstemp(path.data()));
        std::ofstream(path) << row.contents;
        ::chmod(path.c_str(), row.mode);
        if (row.mode == 0) ::unlink(path.c_str());
        SupervisorConfig config = quick_config({});
        config.command.path = path;
        Harness harness(config);
        REQUIRE(harness.run_until(
            [&] { return harness.supervisor->view().state == EngineState::failed; }));
        INFO(harness.supervisor->view().failure);
        CHECK(harness.supervisor->view().engine_starts == 1);
        CHECK(contains(harness.supervisor->view().failure, "cannot execute " + path + ": "));
        CHECK(contains(harness.supervisor->view().failure, row.reason));
        CHECK(harness.finish() == "");
        ::unlink(path.c_str());
    }
}

TEST_CASE("lines of a cancelled request that come late do not reach the next one", "[C13]") {
    Harness harness({"ready", "await GEN", "tokens 2 $ID1", "await STOP", "done cancel $ID1",
                     "await GEN", "tokens 1 $ID1", "done length $ID1", "done length $ID1",
                     "tokens 2 $ID2", "done length $ID2", "serve"});
    const auto first = harness.submit(50);
    const auto second = harness.submit(2);
    first->at_token = [&] {
        if (first->tokens.size() < 2) return;
        first->cancelled = true;
        harness.supervisor->cancel(first->id);
    };
    INFO("row C13: the canaries of the second request only");
    REQUIRE(harness.run_until([&] { return second->ended(); }));
    REQUIRE(second->tokens == std::vector<std::int32_t>{2000, 2001});
    CHECK(second->done->id == second->id);
    CHECK(harness.supervisor->view().foreign_lines == 3);
    CHECK(harness.finish() == "");
}

TEST_CASE("a cancel that the engine never answers ends the epoch and not the next request") {
    const StartsFile starts;
    SupervisorConfig config = starts.config(
        {"load 0", "ready", "on 1", "ignore stop", "await GEN", "tokens 1", "sleep 60000", "end"});
    config.liveness = short_limits();
    Harness harness(config);
    const auto first = harness.submit(50);
    const auto second = harness.submit(2);
    first->at_token = [&] {
        first->cancelled = true;
        harness.supervisor->cancel(first->id);
    };
    REQUIRE(harness.run_until([&] { return second->ended(); }));
    CHECK(second->done);
    CHECK(second->ticket->epoch == 2);
    CHECK(harness.finish() == "");
}

TEST_CASE("many restarts under load leave nothing behind", "[C21]") {
    const int restarts = 100 * long_factor() / kPatience;
    // ThreadSanitizer starts a thread of its own with the first one: before the count begins.
    std::thread([] {}).join();
    SupervisorConfig config = quick_config({"exit 1"});
    config.restart.back_off.fill(milliseconds(0));
    config.restart.load_failures_max = 1 << 30;
    Harness harness(config);
    std::atomic<bool> over{false};
    // Another thread holds a lock, and now and then one of the allocator, at the moment of the
    // fork.
    std::thread load([&over] {
        const std::lock_guard held(lock_of_the_parent());
        while (!over) std::vector<std::string> churn(100, std::string(1000, 'x'));
    });
    const bool quick = harness.run_until(
        [&] { return harness.supervisor->view().engine_starts >= 6; }, seconds(4) * kPatience);
    const bool reached = quick && harness.run_until(
                                      [&] {
                                          return harness.supervisor->view().engine_starts >=
                                                 static_cast<unsigned>(restarts);
                                      },
                                      seconds(60 * long_factor() * kPatience));
    over = true;
    load.join();
    INFO("row C21: no child waits for a lock that nobody will open");
    CHECK(reached);
    CHECK(harness.finish() == "");
}
