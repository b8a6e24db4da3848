// Loading and unloading with a scripted engine and clock: who waits, who is refused, what is
// started and what is not.
#include <catch2/catch.hpp>
#include <signal.h>

#include "tests/serve/supervisor/simulation.hpp"

using namespace strata::serve;
using namespace strata::serve::tests;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

SupervisorConfig idle_after(std::chrono::seconds span) {
    SupervisorConfig config;
    config.idle_unload = span;
    return config;
}

SupervisorConfig with_command() {
    SupervisorConfig config;
    config.preparation.before_load = "stop-the-others";
    return config;
}

void answer(Simulation& sim, const std::shared_ptr<RecordingListener>& request) {
    sim.launcher.last().say(Simulation::done_line(request->id, 0));
    sim.time.settle();
}

class ScriptedVram : public VramSource {
  public:
    void ask() override { ++asked; }
    std::optional<std::vector<GpuMemory>> answer() override { return now; }
    int asked = 0;
    std::optional<std::vector<GpuMemory>> now;
};

bool contains(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

// An unloaded one whose engine has ended in order.
void unload(Simulation& sim) {
    REQUIRE(sim.supervisor.unload([] {}));
    if (!sim.launcher.launches.empty() && !sim.launcher.last().ended) {
        sim.launcher.last().end({false, 0, false});
    }
    sim.time.settle();
    REQUIRE(sim.state() == EngineState::unloaded);
}

}  // namespace

TEST_CASE("a lazy server starts one engine for the requests that come while nothing is loaded") {
    Simulation sim;
    sim.supervisor.start_lazily();
    sim.time.advance(minutes(10));
    CHECK(sim.launcher.attempts == 0);
    CHECK(sim.state() == EngineState::unloaded);
    const auto first = sim.submit();
    const auto second = sim.submit();
    sim.time.settle();
    CHECK(sim.launcher.attempts == 1);
    CHECK(sim.state() == EngineState::loading);
    CHECK(sim.supervisor.view().on_demand);
    sim.time.advance(minutes(2));  // far beyond the wait for a restart
    CHECK_FALSE(first->ended());
    sim.launcher.last().say_ready();
    sim.time.settle();
    CHECK(first->ticket == Ticket{1, first->id});
    answer(sim, first);
    CHECK(second->ticket == Ticket{1, second->id});
    CHECK(sim.launcher.attempts == 1);
}

TEST_CASE("the engine goes after the idle time and not a moment earlier") {
    Simulation sim(idle_after(seconds(10)));
    sim.start_ready();
    const auto request = sim.submit();
    sim.time.advance(seconds(6));
    CHECK_FALSE(sim.supervisor.view().unload_in);
    answer(sim, request);
    CHECK(sim.supervisor.view().unload_in == seconds(10));
    sim.time.advance(seconds(9));
    CHECK(sim.state() == EngineState::ready);
    CHECK(sim.supervisor.view().unload_in == seconds(1));
    sim.time.advance(seconds(1));
    CHECK(sim.state() == EngineState::unloading);
    CHECK(sim.launcher.last().written_count("QUIT") == 1);
    CHECK_FALSE(sim.supervisor.view().info);
    sim.launcher.last().end({false, 0, false});
    sim.time.settle();
    CHECK(sim.state() == EngineState::unloaded);
    CHECK(sim.supervisor.view().engine_pid == 0);
    CHECK(sim.supervisor.view().epoch == 1);
    CHECK(sim.supervisor.view().failure.empty());
    sim.time.advance(minutes(30));
    CHECK(sim.launcher.attempts == 1);
    const auto later = sim.submit();
    sim.time.settle();
    sim.launcher.last().say_ready();
    sim.time.settle();
    CHECK(later->ticket == Ticket{2, later->id});
}

TEST_CASE("a queued request and one that is cancelled count for the idle time") {
    Simulation sim(idle_after(seconds(10)));
    sim.start_ready();
    const auto request = sim.submit();
    sim.time.settle();
    sim.cancel(request);
    sim.time.advance(seconds(15));
    CHECK(sim.state() == EngineState::ready);  // its DONE has not come: the engine is not idle
    answer(sim, request);
    sim.time.advance(seconds(10));
    CHECK(sim.state() == EngineState::unloading);
}

TEST_CASE("an engine that crashes while it is unloaded for want of requests is not restarted") {
    Simulation sim(idle_after(seconds(10)));
    sim.start_ready();
    sim.time.advance(seconds(10));
    REQUIRE(sim.state() == EngineState::unloading);
    sim.launcher.last().end(kCrash);
    sim.time.advance(minutes(10));
    CHECK(sim.state() == EngineState::unloaded);
    CHECK(sim.launcher.attempts == 1);
}

TEST_CASE("an engine that ignores its unload is killed and then counts as gone") {
    Simulation sim;
    sim.start_ready();
    REQUIRE(sim.supervisor.unload([] {}));
    sim.time.advance(seconds(5));
    CHECK(sim.launcher.last().signalled(SIGTERM));
    CHECK_FALSE(sim.launcher.last().group_killed);
    sim.time.advance(seconds(5));
    CHECK(sim.launcher.last().group_killed);
    sim.launcher.last().end({true, SIGKILL, false});
    sim.time.settle();
    CHECK(sim.state() == EngineState::unloaded);
}

TEST_CASE("an unload is refused while a request runs or waits") {
    Simulation sim;
    sim.start_ready();
    const auto request = sim.submit();
    CHECK_FALSE(sim.supervisor.unload([] {}));
    sim.time.settle();
    CHECK_FALSE(sim.supervisor.unload([] {}));
    answer(sim, request);
    CHECK(sim.supervisor.unload([] {}));
    sim.launcher.last().end({false, 0, false});
    sim.time.settle();
    const auto waiting = sim.submit();
    CHECK_FALSE(sim.supervisor.unload([] {}));
    sim.time.settle();
    CHECK(sim.state() == EngineState::loading);
    CHECK_FALSE(waiting->ended());
}

TEST_CASE("whoever asked is told once when nothing is under way any more") {
    Simulation sim;
    sim.start_ready();
    int told = 0;
    const auto tell = [&told] { ++told; };
    sim.supervisor.load(tell);
    CHECK(told == 0);  // never from inside the call
    sim.time.settle();
    CHECK(told == 1);
    REQUIRE(sim.supervisor.unload(tell));
    REQUIRE(sim.supervisor.unload(tell));
    sim.time.settle();
    CHECK(told == 1);
    sim.launcher.last().end({false, 0, false});
    sim.time.settle();
    CHECK(told == 3);
    sim.supervisor.load(tell);
    sim.time.settle();
    CHECK(told == 3);
    sim.launcher.last().say_ready();
    sim.time.settle();
    CHECK(told == 4);
}

TEST_CASE("a request that comes while the engine ends starts the next one") {
    Simulation sim;
    sim.start_ready();
    REQUIRE(sim.supervisor.unload([] {}));
    const auto request = sim.submit();
    const auto second = sim.submit();
    sim.time.settle();
    CHECK(sim.launcher.attempts == 1);
    CHECK(sim.supervisor.view().load_progress == 0.0);  // of the load that is waited for
    sim.launcher.last().end({false, 0, false});
    sim.time.settle();
    CHECK(sim.launcher.attempts == 2);
    CHECK(sim.supervisor.view().load_progress == 0.0);
    sim.launcher.last().say_ready();
    sim.time.settle();
    CHECK(request->ticket == Ticket{2, request->id});
    CHECK_FALSE(second->ticket);
}

TEST_CASE("an unload ends a load that is under way") {
    Simulation sim;
    sim.supervisor.start();
    sim.time.settle();
    REQUIRE(sim.supervisor.unload([] {}));
    CHECK(sim.launcher.last().signalled(SIGTERM));  // while it loads nobody reads QUIT
    sim.launcher.last().say_ready();                // too late
    sim.time.settle();
    CHECK(sim.state() == EngineState::unloading);
    sim.launcher.last().end({true, SIGTERM, false});
    sim.time.advance(minutes(10));
    CHECK(sim.state() == EngineState::unloaded);
    CHECK(sim.launcher.attempts == 1);
}

TEST_CASE("a server that leaves is stopped from every state") {
    const int stage = GENERATE(0, 1, 2, 3, 4, 5);
    Simulation sim(stage == 4 ? with_command() : SupervisorConfig{});
    if (stage == 0) sim.supervisor.start_lazily();
    if (stage >= 1) sim.supervisor.start();
    sim.time.settle();
    if (stage == 2 || stage == 3 || stage == 5) {
        sim.launcher.last().say_ready();
        sim.time.settle();
    }
    if (stage == 3) REQUIRE(sim.supervisor.unload([] {}));
    if (stage == 5) unload(sim);
    int stopped = 0;
    sim.supervisor.shut_down([&stopped] { ++stopped; });
    sim.time.settle();
    if (stage >= 1 && stage <= 3) {
        CHECK(stopped == 0);
        sim.launcher.last().end({false, 0, false});
        sim.time.settle();
    }
    CHECK(stopped == 1);
    CHECK(sim.state() == EngineState::stopped);
    const std::size_t attempts = sim.launcher.attempts;
    const auto late = sim.submit();
    sim.supervisor.load([] {});
    sim.time.advance(minutes(1));
    CHECK(late->failure->kind == FailureKind::shutting_down);
    CHECK(sim.launcher.attempts == attempts);
    if (stage == 4) CHECK(sim.launcher.last().destroyed);
}

TEST_CASE("the engine is started after before_load and again before a restart") {
    Simulation sim(with_command());
    sim.supervisor.start();
    sim.time.settle();
    CHECK(sim.state() == EngineState::preparing);
    CHECK(sim.supervisor.view().epoch == 0);
    CHECK(sim.launcher.last().stdin_closed);
    sim.launcher.last().end({});
    sim.time.settle();
    CHECK(sim.state() == EngineState::loading);
    sim.launcher.last().say_ready();
    sim.time.settle();
    REQUIRE(sim.state() == EngineState::ready);
    sim.launcher.last().end(kCrash);
    sim.time.settle();
    CHECK(sim.state() == EngineState::preparing);
    sim.launcher.last().end({});
    sim.time.settle();
    CHECK(sim.state() == EngineState::loading);
    CHECK(sim.supervisor.view().epoch == 2);
}

TEST_CASE(
    "a before_load that fails refuses the load in its own words and the next request tries again") {
    Simulation sim(with_command());
    sim.supervisor.start_lazily();
    const auto request = sim.submit();
    sim.time.settle();
    sim.launcher.last().events->on_stderr_line("the disk is not there");
    sim.launcher.last().end({false, 3, false});
    sim.time.settle();
    REQUIRE(request->failure);
    CHECK(request->failure->kind == FailureKind::load_refused);
    CHECK(request->failure->err_code == "before_load_failed");
    CHECK(request->failure->text == "before_load ended with status 3: the disk is not there");
    CHECK(request->failure->retry_after > seconds(0));
    CHECK(sim.state() == EngineState::unloaded);
    CHECK(sim.supervisor.view().refusal_code == "before_load_failed");
    CHECK(sim.supervisor.view().epoch == 0);
    const auto next = sim.submit();
    sim.time.settle();
    sim.launcher.last().end({});
    sim.time.settle();
    sim.launcher.last().say_ready();
    sim.time.settle();
    CHECK(next->ticket);
}

TEST_CASE("a before_load that takes too long is killed") {
    Simulation sim(with_command());
    sim.supervisor.start();
    sim.time.advance(seconds(59));
    CHECK_FALSE(sim.launcher.last().group_killed);
    sim.time.advance(seconds(1));
    REQUIRE(sim.launcher.last().group_killed);
    sim.launcher.last().end({true, SIGKILL, false});
    sim.time.settle();
    CHECK(sim.state() == EngineState::unloaded);
    CHECK(contains(sim.supervisor.view().failure, "took longer than 60 s"));
}

TEST_CASE("an unload during before_load ends the command") {
    Simulation sim(with_command());
    sim.supervisor.start();
    sim.time.settle();
    REQUIRE(sim.supervisor.unload([] {}));
    sim.time.advance(minutes(5));
    CHECK(sim.launcher.last().destroyed);
    CHECK(sim.state() == EngineState::unloaded);
    CHECK(sim.launcher.attempts == 1);
}

TEST_CASE("too little GPU memory is waited for and then told with its figures") {
    FakeTime time;
    FakeLauncher launcher{time};
    RecordingLog log;
    ScriptedVram vram;
    SupervisorConfig config;
    config.preparation.min_free_vram_mib = 20'000;
    EngineSupervisor supervisor(
        config, launcher, time, log, [] { return 0.5; }, &vram);
    supervisor.start_lazily();
    supervisor.load([] {});
    time.advance(seconds(1));
    CHECK(supervisor.view().state == EngineState::preparing);
    vram.now = {{"Card", 19'999, 24'564}};
    time.advance(seconds(1));
    CHECK(supervisor.view().state == EngineState::preparing);
    time.advance(seconds(2));
    CHECK(supervisor.view().state == EngineState::unloaded);
    CHECK(supervisor.view().failure ==
          "not enough GPU memory for a load: 19999 of 24564 MiB are free on Card; "
          "min_free_vram_mib asks for 20000");
    CHECK(supervisor.view().refusal_code == "not_enough_vram");
    CHECK(vram.asked > 1);
    CHECK(launcher.attempts == 0);
    supervisor.load([] {});
    vram.now = {{"Card", 20'000, 24'564}};
    time.advance(seconds(1));
    CHECK(supervisor.view().state == EngineState::loading);
}

TEST_CASE("a machine without a GPU ignores the limit and says so") {
    Simulation sim([] {
        SupervisorConfig config;
        config.preparation.min_free_vram_mib = 20'000;
        return config;
    }());
    sim.start_ready();
    CHECK(sim.state() == EngineState::ready);
    CHECK(sim.log.count("min_free_vram_mib is ignored") == 1);
}

TEST_CASE("an engine that failed for good is unloaded by a person and loaded by the next request") {
    Simulation sim;
    sim.launcher.refusal = {"cannot execute /nowhere: No such file or directory", true};
    sim.supervisor.start();
    sim.time.settle();
    REQUIRE(sim.state() == EngineState::failed);
    unload(sim);
    CHECK(sim.supervisor.view().failure.empty());
    sim.launcher.refusal = {};
    const auto request = sim.submit();
    sim.time.settle();
    sim.launcher.last().say_ready();
    sim.time.settle();
    CHECK(request->ticket);
}

TEST_CASE("a load that was asked for fails as a start does") {
    Simulation sim;
    sim.launcher.at_launch = [](ProcessRecord& process) { process.end({false, 1, false}); };
    sim.supervisor.start_lazily();
    const auto request = sim.submit();
    sim.time.advance(seconds(108));
    CHECK(sim.launcher.attempts == 8);
    CHECK(sim.state() == EngineState::failed);
    CHECK(request->ended());
}

TEST_CASE("the next pass of an answer holds the engine before whatever waits") {
    Simulation sim;
    sim.start_ready();
    const auto first = sim.submit();
    sim.time.settle();
    std::vector<std::shared_ptr<RecordingListener>> waiting;
    for (int i = 0; i < 64; ++i) waiting.push_back(sim.submit());
    auto second = std::make_shared<RecordingListener>();
    sim.listeners.push_back(second);
    first->at_end = [&] {
        strata::protocol::GenCommand command;
        command.max_new = 1;
        command.ids = {1, 2, 3, 4};
        second->id = sim.supervisor.submit_next(command, second);
    };
    answer(sim, first);
    INFO("a full queue of 64 takes it, too");
    REQUIRE(second->ticket);
    CHECK(second->ticket == Ticket{1, second->id});
    answer(sim, second);
    CHECK(waiting.front()->ticket);
}

TEST_CASE("a pass that waits while the engine dies is read by the next engine") {
    Simulation sim;
    sim.start_ready();
    const auto first = sim.submit();
    sim.time.settle();
    auto second = std::make_shared<RecordingListener>();
    sim.listeners.push_back(second);
    first->at_end = [&] {
        strata::protocol::GenCommand command;
        command.max_new = 1;
        command.ids = {1, 2, 3, 4};
        second->id = sim.supervisor.submit_next(command, second);
    };
    sim.launcher.last().say(Simulation::done_line(first->id, 0));
    sim.launcher.last().end(kCrash);  // in the same turn of the loop
    sim.time.settle();
    CHECK_FALSE(second->ended());
    sim.launcher.last().say_ready();
    sim.time.settle();
    CHECK(second->ticket == Ticket{2, second->id});
}

TEST_CASE("a load that a person asks for does not wait for the next restart") {
    SupervisorConfig config;
    config.restart.back_off.fill(seconds(50));
    Simulation sim(config);
    sim.start_ready();
    sim.launcher.last().end(kCrash);
    sim.time.settle();
    REQUIRE(sim.state() == EngineState::restarting);
    // A request waits: it is no reason to begin sooner.
    const auto request = sim.submit();
    sim.time.advance(seconds(5));
    CHECK(sim.launcher.attempts == 1);
    bool settled = false;
    sim.supervisor.load([&] { settled = true; });
    sim.time.settle();
    CHECK(sim.launcher.attempts == 2);
    CHECK(sim.state() == EngineState::loading);
    CHECK_FALSE(settled);
    sim.launcher.last().say("READY 4096 stop id");  // no PING: it may be silent
    sim.time.settle();
    CHECK(settled);
    CHECK(request->ticket == Ticket{2, request->id});
    // The wait that was cut short does not start another engine.
    sim.time.advance(minutes(2));
    CHECK(sim.launcher.attempts == 2);
    CHECK(sim.state() == EngineState::ready);
}

TEST_CASE("a load that is asked for while the engine is ending starts the next one at once") {
    SupervisorConfig config;
    config.restart.back_off.fill(seconds(50));
    Simulation sim(config);
    sim.start_ready();
    sim.launcher.last().events->on_stream_fault(StreamFault::overlong_line);
    sim.time.settle();
    REQUIRE(sim.state() == EngineState::restarting);
    sim.supervisor.load([] {});
    sim.launcher.last().end(kCrash);
    sim.time.settle();
    CHECK(sim.launcher.attempts == 2);
    // Once: the next crash waits again.
    sim.launcher.last().say_ready();
    sim.time.settle();
    sim.launcher.last().end(kCrash);
    sim.time.advance(seconds(49));
    CHECK(sim.launcher.attempts == 2);
    sim.time.advance(seconds(2));
    CHECK(sim.launcher.attempts == 3);
}

TEST_CASE("what ended an engine is a failure until the next one is ready") {
    SupervisorConfig config;
    config.restart.back_off.fill(seconds(1));
    Simulation sim(config);
    sim.start_ready();
    sim.launcher.last().end(kCrash);
    sim.time.advance(seconds(2));
    CHECK(sim.state() == EngineState::loading);
    CHECK_FALSE(sim.supervisor.view().failure.empty());
    const std::string past = sim.supervisor.view().failure;
    sim.launcher.last().say_ready();
    sim.time.settle();
    CHECK(sim.supervisor.view().failure.empty());
    CHECK(sim.supervisor.view().last_failure == past);
}

TEST_CASE("a load of what is loaded is over at once and takes nothing from who uses it") {
    Simulation sim;
    sim.start_ready();
    const auto running = sim.submit();
    const auto waiting = sim.submit();
    sim.time.settle();
    REQUIRE(running->ticket);
    bool settled = false;
    sim.supervisor.load([&] { settled = true; });
    sim.time.settle();
    CHECK(settled);
    CHECK(sim.state() == EngineState::ready);
    CHECK(sim.supervisor.view().busy);
    CHECK(sim.supervisor.view().queued == 1);
    answer(sim, running);
    answer(sim, waiting);
    CHECK(waiting->done);
    CHECK(sim.launcher.attempts == 1);
}
