// Epochs, restarts, hangs and the orderly end, with a scripted engine and clock: the fast half of
// ROWS.md.
#include <catch2/catch.hpp>
#include <signal.h>

#include "tests/serve/supervisor/simulation.hpp"

using namespace strata::serve;
using namespace strata::serve::tests;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

// Answers PING for `span`, a second at a time.
void live_for(Simulation& sim, std::chrono::seconds span) {
    for (int i = 0; i < span.count(); ++i) {
        sim.time.advance(seconds(1));
        const std::size_t pings = sim.launcher.last().written_count("PING ");
        if (pings > 0) sim.launcher.last().say("PONG " + std::to_string(pings));
    }
}

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a load that always fails is started exactly eight times", "[C11]") {
    Simulation sim;
    constexpr int kSurelyTooMany = 1000;
    sim.launcher.at_launch = [](ProcessRecord& process) {
        if (process.number <= kSurelyTooMany) process.end({false, 1, false});
    };
    sim.supervisor.start();
    const TimePoint began = sim.time.now();
    sim.time.advance(seconds(108));
    INFO("row C11: eight starts, then FAILED, and none more in ten minutes");
    REQUIRE(sim.launcher.attempts == 8);
    CHECK(sim.launcher.attempt_times.back() - began == seconds(108));
    CHECK(sim.state() == EngineState::failed);
    CHECK(contains(sim.supervisor.view().failure, "8 starts in a row failed"));
    CHECK(contains(sim.supervisor.view().failure, "exited with status 1"));
    sim.time.advance(minutes(10));
    CHECK(sim.launcher.attempts == 8);
    const auto late = sim.submit();
    sim.time.settle();
    CHECK(late->failure->kind == FailureKind::engine_failed);

    sim.launcher.at_launch = nullptr;
    REQUIRE(sim.supervisor.retry());
    CHECK_FALSE(sim.supervisor.retry());
    const auto waiting = sim.submit();
    sim.time.settle();
    sim.launcher.last().say_ready();
    sim.time.settle();
    CHECK(sim.state() == EngineState::ready);
    CHECK(waiting->ticket == Ticket{9, waiting->id});
}

TEST_CASE("a program that cannot be executed for now is tried eight times") {
    Simulation sim;
    sim.launcher.refusal = {"no pipe for the engine: Too many open files", false};
    sim.supervisor.start();
    sim.time.advance(minutes(20));
    CHECK(sim.launcher.attempts == 8);
    CHECK(sim.state() == EngineState::failed);
    CHECK(contains(sim.supervisor.view().failure, "Too many open files"));
}

TEST_CASE("a program that can never be executed fails at once and may come back by a retry") {
    Simulation sim;
    sim.launcher.refusal = {"cannot execute /nowhere: No such file or directory", true};
    sim.supervisor.start();
    sim.time.advance(minutes(20));
    CHECK(sim.launcher.attempts == 1);
    CHECK(sim.state() == EngineState::failed);
    CHECK(contains(sim.supervisor.view().failure, "cannot execute /nowhere"));
    sim.launcher.refusal = {};
    REQUIRE(sim.supervisor.retry());
    sim.launcher.last().say_ready();
    sim.time.settle();
    CHECK(sim.state() == EngineState::ready);
    // The file goes while the engine works: its next start fails for good, too.
    sim.launcher.refusal = {"cannot execute /nowhere: No such file or directory", true};
    sim.launcher.last().end(kCrash);
    sim.time.advance(minutes(20));
    CHECK(sim.launcher.attempts == 3);
    CHECK(sim.state() == EngineState::failed);
}

TEST_CASE("a refused option or model fails at once with the engine's own words") {
    const int code = GENERATE(2, 3);
    Simulation sim;
    sim.launcher.at_launch = [code](ProcessRecord& process) {
        process.events->on_stderr_line("--max-context 12x is no number");
        process.end({false, code, false});
    };
    sim.supervisor.start();
    const auto request = sim.submit();
    sim.time.advance(minutes(1));
    CHECK(sim.launcher.attempts == 1);
    CHECK(sim.state() == EngineState::failed);
    CHECK(contains(sim.supervisor.view().failure, "--max-context 12x is no number"));
    CHECK(request->failure->kind == FailureKind::engine_failed);
    CHECK(contains(request->failure->text, "--max-context 12x is no number"));
}

TEST_CASE("a device that is busy for some starts is waited for", "[C20]") {
    Simulation sim;
    sim.launcher.at_launch = [](ProcessRecord& process) {
        if (process.number <= 5) {
            process.end({false, 4, false});
        } else {
            process.say_ready();
        }
    };
    sim.supervisor.start();
    sim.time.advance(seconds(20));
    INFO("row C20: the sixth start finds the device free");
    REQUIRE(sim.state() == EngineState::ready);
    CHECK(sim.supervisor.view().epoch == 6);
    CHECK(contains(sim.supervisor.view().last_failure, "no usable device"));
    CHECK(sim.supervisor.view().failure.empty());
}

TEST_CASE("an engine that does not answer PING is ended after thirty seconds", "[C9]") {
    Simulation sim;
    sim.start_ready();
    sim.time.advance(seconds(29));
    CHECK_FALSE(sim.launcher.last().signalled(SIGABRT));
    sim.time.advance(seconds(1));
    INFO("row C9: SIGABRT at the limit, SIGKILL five seconds later, then the next epoch");
    REQUIRE(sim.launcher.last().signalled(SIGABRT));
    CHECK_FALSE(sim.launcher.last().group_killed);
    sim.time.advance(seconds(5));
    CHECK(sim.launcher.last().group_killed);
    sim.launcher.last().end({true, SIGKILL, false});
    sim.time.settle();
    CHECK(sim.supervisor.view().epoch == 2);
    CHECK(contains(sim.supervisor.view().failure, "its main loop did not answer"));
}

TEST_CASE("an engine that answers PING but makes no progress is ended after 300 seconds", "[C9]") {
    Simulation sim;
    sim.start_ready();
    const auto request = sim.submit();
    sim.time.settle();
    sim.launcher.last().say(Simulation::token_line(request->id, 5));
    live_for(sim, seconds(299));
    CHECK_FALSE(sim.launcher.last().signalled(SIGABRT));
    live_for(sim, seconds(1));
    INFO("row C9: no progress for 300 s ends the engine");
    REQUIRE(sim.launcher.last().signalled(SIGABRT));
    sim.launcher.last().end({true, SIGABRT, true});
    CHECK(contains(request->failure->text, "its request made no progress"));
}

TEST_CASE("an engine that is slow but alive is never ended") {
    Simulation sim;
    sim.start_ready();
    const auto request = sim.submit();
    sim.time.settle();
    for (int i = 0; i < 60; ++i) {
        live_for(sim, seconds(20));
        sim.launcher.last().say(Simulation::token_line(request->id, 5));
    }
    CHECK_FALSE(sim.launcher.last().signalled(SIGABRT));
    CHECK(request->tokens.size() == 60);
}

TEST_CASE("a stall of this server is not held against the engine", "[C6]") {
    Simulation sim;
    sim.start_ready();
    const auto request = sim.submit();
    sim.time.settle();
    sim.launcher.last().say(Simulation::token_line(request->id, 5));
    live_for(sim, seconds(10));
    sim.time.jump(minutes(10));
    sim.time.settle();
    INFO("row C6: what lies unread is not blamed on its writer");
    REQUIRE_FALSE(sim.launcher.last().signalled(SIGABRT));
    live_for(sim, seconds(20));
    CHECK(sim.state() == EngineState::ready);
}

TEST_CASE("a request that waits too long for a load is told when to come again") {
    Simulation sim;
    sim.supervisor.start();
    sim.time.settle();
    sim.launcher.last().say("LOAD 0 1000");
    const auto request = sim.submit();
    sim.time.advance(seconds(20));
    sim.launcher.last().say("LOAD 200 1000");
    sim.time.advance(seconds(10));
    REQUIRE(request->failure);
    CHECK(request->failure->kind == FailureKind::start_timeout);
    CHECK(request->failure->retry_after == seconds(120));
}

TEST_CASE("a load without progress is ended and a slow load is not") {
    Simulation sim;
    sim.supervisor.start();
    sim.time.settle();
    for (int i = 0; i < 10; ++i) {
        sim.time.advance(seconds(299));
        sim.launcher.last().say("LOAD " + std::to_string(i) + " 100");
    }
    CHECK_FALSE(sim.launcher.last().signalled(SIGABRT));
    sim.time.advance(seconds(300));
    CHECK(sim.launcher.last().signalled(SIGABRT));
}

TEST_CASE("an engine without the ping word is watched by its progress alone") {
    Simulation sim;
    sim.supervisor.start();
    sim.time.settle();
    sim.launcher.last().say("READY 4096 stop id");
    const auto request = sim.submit();
    sim.time.advance(seconds(299));
    CHECK(sim.launcher.last().written_count("PING ") == 0);
    CHECK_FALSE(sim.launcher.last().signalled(SIGABRT));
    sim.time.advance(seconds(1));
    CHECK(sim.launcher.last().signalled(SIGABRT));
}

TEST_CASE("the first fatal cause is the one that is told", "[C12]") {
    Simulation sim;
    sim.start_ready();
    const auto request = sim.submit();
    sim.time.settle();
    sim.launcher.last().say(Simulation::token_line(request->id, 5));
    sim.launcher.last().say("ERR device_lost id=" + std::to_string(request->id) +
                            " fatal=1 text=the device went away");
    CHECK_FALSE(request->ended());
    sim.launcher.last().events->on_stderr_line("terminate called");
    sim.launcher.last().end(kCrash);
    INFO("row C12: the fatal line is the cause, the signal its consequence");
    REQUIRE(contains(request->failure->text, "device_lost: the device went away"));
    CHECK(contains(request->failure->text, "signal 11 (SIGSEGV)"));
    CHECK(contains(request->failure->text, "while it wrote an answer"));
    CHECK(contains(request->failure->text, "terminate called"));
    CHECK(request->failure->kind == FailureKind::engine_died);
}

TEST_CASE("an engine that announces its death and lives on is ended") {
    Simulation sim;
    sim.start_ready();
    sim.launcher.last().say("ERR internal fatal=1 text=bad");
    sim.time.advance(seconds(2));
    CHECK(sim.launcher.last().signalled(SIGABRT));
}

TEST_CASE("status 0 while a request runs is a failure of that request") {
    Simulation sim;
    sim.start_ready();
    const auto request = sim.submit();
    sim.time.settle();
    sim.launcher.last().end({false, 0, false});
    sim.time.settle();
    REQUIRE(request->failure);
    CHECK(contains(request->failure->text, "status 0 without being asked"));
    CHECK(sim.supervisor.view().unexpected_ends == 1);
    CHECK(sim.supervisor.view().epoch == 2);
}

TEST_CASE("another protocol version is refused for good", "[C23]") {
    Simulation sim;
    sim.supervisor.start();
    sim.time.settle();
    sim.launcher.last().say("INFO protocol=2 context=4096");
    sim.launcher.last().say("READY 4096 stop id ping");
    INFO("row C23: no request goes to an engine of another version");
    CHECK(sim.state() != EngineState::ready);
    REQUIRE(sim.launcher.last().signalled(SIGABRT));
    sim.launcher.last().end({true, SIGABRT, false});
    sim.time.advance(minutes(5));
    CHECK(sim.state() == EngineState::failed);
    CHECK(sim.launcher.attempts == 1);
}

TEST_CASE("row C23 older and newer DONE lines and broken ones leave the desk in step") {
    const std::string head = "DONE 1 3 1.0 1.0 length 0 0 0 0 0 0 0 0 3";
    struct Row {
        std::string line;  // without its id
        bool ends;
    };
    std::vector<Row> rows = {
        {"DONE 1 3 1.0 1.0 length 0 0 0 0 0 0 0 0", false},  // 13 fields
        {head, true},
        {head + " 1", true},
        {head + " 1 0 2 300", true},
        {head + " 1 0 2 300 4", true},
        {head + " 1 0 2 300 4 9 9 9 9 9 9", true},  // 25 fields
        {"DONE  1  3 1.0 1.0   length 0 0 0 0 0 0 0 0 3", true},
        {"DONE x 3 1.0 1.0 length 0 0 0 0 0 0 0 0 3", false},
        {"DONE -1 3 1.0 1.0 length 0 0 0 0 0 0 0 0 3", false},
        {"DONE 99999999999999999999 3 1.0 1.0 length 0 0 0 0 0 0 0 0 3", false},
        {"DONE 1 3 nan 1.0 length 0 0 0 0 0 0 0 0 3", false},
        {"DONE 1 3 1.0 1.0 done 0 0 0 0 0 0 0 0 3", false},
    };
    for (const Row& row : rows) {
        for (const std::string& line_end : {std::string(), std::string("\r")}) {
            Simulation sim;
            sim.start_ready();
            const auto request = sim.submit();
            sim.time.settle();
            const std::string id = " id=" + std::to_string(request->id);
            sim.launcher.last().say(row.line + id + line_end);
            INFO(row.line);
            CHECK(request->ended() == row.ends);
            CHECK(sim.supervisor.view().foreign_lines == (row.ends ? 0U : 1U));
            sim.launcher.last().say(head + id);
            CHECK(request->done);
            const auto next = sim.submit();
            sim.time.settle();
            CHECK(next->ticket);
        }
    }
}

TEST_CASE("a DONE that was in the pipe when the engine died completes its request") {
    Simulation sim;
    sim.start_ready();
    const auto request = sim.submit();
    sim.time.settle();
    ProcessRecord& process = sim.launcher.last();
    process.events->on_exit(kCrash);
    process.say(Simulation::done_line(request->id, 0));
    process.events->on_drained();
    sim.time.settle();
    CHECK(request->done);
    CHECK(sim.complaints() == "");
}

TEST_CASE("shut_down says QUIT and closes stdin, then SIGTERM, then SIGKILL") {
    Simulation sim;
    sim.start_ready();
    const auto running = sim.submit();
    const auto queued = sim.submit();
    sim.time.settle();
    bool stopped = false;
    sim.supervisor.shut_down([&] { stopped = true; });
    sim.time.settle();
    CHECK(queued->failure->kind == FailureKind::shutting_down);
    CHECK(sim.launcher.last().written.back() == "QUIT");
    CHECK(sim.launcher.last().stdin_closed);
    sim.time.advance(seconds(5));
    CHECK(sim.launcher.last().signalled(SIGTERM));
    CHECK_FALSE(sim.launcher.last().group_killed);
    sim.time.advance(seconds(5));
    CHECK(sim.launcher.last().group_killed);
    CHECK_FALSE(stopped);
    sim.launcher.last().end({true, SIGKILL, false});
    sim.time.settle();
    CHECK(stopped);
    CHECK(running->failure->kind == FailureKind::shutting_down);
    CHECK(sim.state() == EngineState::stopped);
    sim.time.advance(minutes(5));
    CHECK(sim.launcher.attempts == 1);
}

TEST_CASE("a request that ends in the orderly way during shut_down hears its DONE") {
    Simulation sim;
    sim.start_ready();
    const auto running = sim.submit();
    sim.time.settle();
    sim.supervisor.shut_down([] {});
    sim.launcher.last().say(Simulation::done_line(running->id, 0, "cancel"));
    sim.launcher.last().end({false, 0, false});
    sim.time.settle();
    CHECK(running->done);
    CHECK(sim.supervisor.view().unexpected_ends == 0);
}

TEST_CASE("shut_down twice kills at once and tells both callers") {
    Simulation sim;
    sim.start_ready();
    int stopped = 0;
    sim.supervisor.shut_down([&] { ++stopped; });
    sim.supervisor.shut_down([&] { ++stopped; });
    CHECK(sim.launcher.last().group_killed);
    sim.launcher.last().end({true, SIGKILL, false});
    sim.time.settle();
    CHECK(stopped == 2);
}

TEST_CASE("shut_down between two epochs starts no engine more") {
    Simulation sim;
    sim.start_ready();
    sim.launcher.last().end(kCrash);
    bool stopped = false;
    sim.supervisor.shut_down([&] { stopped = true; });
    sim.time.advance(minutes(2));
    CHECK(stopped);
    CHECK(sim.launcher.attempts == 1);
    const auto late = sim.submit();
    sim.time.settle();
    CHECK(late->failure->kind == FailureKind::shutting_down);
}

TEST_CASE("an engine that is killed and does not end leaves nobody waiting") {
    Simulation sim;
    sim.start_ready();
    const auto request = sim.submit();
    sim.time.settle();
    sim.time.advance(minutes(6));
    REQUIRE(sim.launcher.last().group_killed);
    CHECK(request->ended());
    CHECK(sim.launcher.attempts == 1);
    sim.launcher.last().end({true, SIGKILL, false});
    sim.time.settle();
    CHECK(sim.launcher.attempts == 2);
    CHECK(sim.complaints() == "");
}
