// The queue, the ticket, cancel and the listener's last call, with a scripted engine and clock.
#include <catch2/catch.hpp>
#include <signal.h>

#include "tests/serve/supervisor/simulation.hpp"

using namespace strata::serve;
using namespace strata::serve::tests;
using std::chrono::seconds;

TEST_CASE("requests hold the engine one after another in the order of submission") {
    Simulation sim;
    sim.start_ready();
    const auto first = sim.submit();
    const auto second = sim.submit();
    CHECK_FALSE(first->ticket);
    sim.time.settle();
    CHECK(first->ticket == Ticket{1, first->id});
    CHECK_FALSE(second->ticket);
    CHECK(sim.launcher.last().written_count("GEN ") == 1);
    sim.launcher.last().say(Simulation::done_line(first->id, 0));
    sim.time.settle();
    CHECK(first->done);
    CHECK(second->ticket == Ticket{1, second->id});
    CHECK(sim.launcher.last().last_gen_id() == second->id);
}

TEST_CASE("the sixty fifth waiting request is refused and the others are not") {
    Simulation sim;
    sim.start_ready();
    sim.submit();
    sim.time.settle();
    for (int i = 0; i < 64; ++i) sim.submit();
    const auto surplus = sim.submit();
    CHECK(surplus->final_calls == 0);
    sim.time.settle();
    REQUIRE(surplus->failure);
    CHECK(surplus->failure->kind == FailureKind::queue_full);
    CHECK(surplus->failure->retry_after > seconds(0));
    CHECK(sim.supervisor.view().queued == 64);
}

TEST_CASE("a refused request that is cancelled before it is told hears nothing") {
    Simulation sim;
    sim.start_ready();
    sim.submit();
    sim.time.settle();
    for (int i = 0; i < 64; ++i) sim.submit();
    const auto surplus = sim.submit();
    sim.cancel(surplus);
    sim.time.settle();
    CHECK(surplus->calls_after_end == 0);
    CHECK(surplus->final_calls == 0);
}

TEST_CASE("cancelling a queued request only removes it from the queue", "[C14]") {
    Simulation sim;
    sim.start_ready();
    const auto running = sim.submit();
    const auto queued = sim.submit();
    const auto third = sim.submit();
    sim.time.settle();
    sim.cancel(queued);
    sim.time.settle();
    INFO("row C14: the running request goes on");
    REQUIRE(sim.supervisor.view().queued == 1);
    CHECK(sim.launcher.last().written_count("STOP") == 0);
    sim.launcher.last().say(Simulation::token_line(running->id, 7));
    sim.launcher.last().say(Simulation::done_line(running->id, 1));
    sim.time.settle();
    CHECK(running->tokens == std::vector<std::int32_t>{7});
    CHECK(third->ticket);
    CHECK_FALSE(queued->ticket);
}

TEST_CASE("a cancelled running request keeps the engine until its DONE", "[C14]") {
    Simulation sim;
    sim.start_ready();
    const auto first = sim.submit();
    const auto second = sim.submit();
    sim.time.settle();
    sim.cancel(first);
    sim.cancel(first);
    INFO("row C14: one STOP, and nobody else's turn before the DONE");
    CHECK(sim.launcher.last().written_count("STOP id=" + std::to_string(first->id)) == 1);
    sim.launcher.last().say(Simulation::token_line(first->id, 5));
    sim.time.settle();
    CHECK_FALSE(second->ticket);
    CHECK(sim.supervisor.view().busy);
    sim.launcher.last().say(Simulation::done_line(first->id, 1, "cancel"));
    sim.time.settle();
    CHECK(second->ticket);
    CHECK(sim.complaints() == "request 2 heard 0 final calls; ");
}

TEST_CASE("what waits behind a request that the engine gives up is the next engine's") {
    Simulation sim;
    sim.start_ready();
    const auto given_up = sim.submit();
    const auto waiting = sim.submit();
    sim.time.settle();
    sim.launcher.last().say(Simulation::done_line(given_up->id, 3, "cancel"));
    sim.time.settle();
    CHECK(given_up->done);
    CHECK_FALSE(waiting->ticket);
    sim.launcher.last().end({false, 0, false});
    sim.time.advance(seconds(1));
    sim.launcher.last().say_ready();
    sim.time.settle();
    REQUIRE(waiting->ticket);
    CHECK(waiting->ticket->epoch == 2);
    sim.launcher.last().say(Simulation::done_line(waiting->id, 2));
    CHECK(waiting->done);
    CHECK_FALSE(waiting->failure);
}

TEST_CASE("an engine that gives a request up and stays is ended") {
    Simulation sim;
    sim.start_ready();
    const auto request = sim.submit();
    sim.time.settle();
    sim.launcher.last().say(Simulation::done_line(request->id, 3, "cancel"));
    sim.time.advance(seconds(1));
    CHECK_FALSE(sim.launcher.last().signalled(SIGABRT));
    sim.time.advance(seconds(2));
    CHECK(sim.launcher.last().signalled(SIGABRT));
    CHECK(sim.supervisor.view().epoch == 1);
}

TEST_CASE("stop_writing sends STOP once and the DONE still comes") {
    Simulation sim;
    sim.start_ready();
    const auto request = sim.submit();
    sim.time.settle();
    request->at_token = [&] { sim.supervisor.stop_writing(request->id); };
    sim.launcher.last().say(Simulation::token_line(request->id, 5));
    sim.launcher.last().say(Simulation::token_line(request->id, 6));
    CHECK(sim.launcher.last().written_count("STOP") == 1);
    sim.launcher.last().say(Simulation::done_line(request->id, 2, "cancel"));
    CHECK(request->tokens.size() == 2);
    CHECK(request->done);
}

TEST_CASE("a listener may cancel itself in a token and submit the next request in its end") {
    Simulation sim;
    sim.start_ready();
    const auto first = sim.submit();
    sim.time.settle();
    first->at_token = [&] { sim.cancel(first); };
    sim.launcher.last().say(Simulation::token_line(first->id, 5));
    sim.launcher.last().say(Simulation::token_line(first->id, 6));
    sim.launcher.last().say(Simulation::done_line(first->id, 2, "cancel"));
    CHECK(first->tokens.size() == 1);
    const auto second = sim.submit();
    sim.time.settle();
    second->at_end = [&] { sim.submit(); };
    sim.launcher.last().say(Simulation::done_line(second->id, 0));
    sim.time.settle();
    CHECK(sim.launcher.last().last_gen_id() == sim.listeners.back()->id);
}

TEST_CASE("a refusal of the engine reaches the listener with its code and frees the engine") {
    Simulation sim;
    sim.start_ready();
    const auto request = sim.submit();
    sim.time.settle();
    sim.launcher.last().say("ERR too_long id=" + std::to_string(request->id) +
                            " text=3 + 9999 over 4096");
    REQUIRE(request->failure);
    CHECK(request->failure->kind == FailureKind::refused);
    CHECK(request->failure->err_code == "too_long");
    CHECK(request->failure->text == "3 + 9999 over 4096");
    CHECK_FALSE(sim.supervisor.view().busy);
}

TEST_CASE("a request waits thirty seconds for an engine that does not come") {
    Simulation sim;
    sim.supervisor.start();
    sim.time.settle();
    const auto request = sim.submit();
    sim.time.advance(Milliseconds(29999));
    CHECK_FALSE(request->ended());
    sim.time.advance(Milliseconds(1));
    REQUIRE(request->failure);
    CHECK(request->failure->kind == FailureKind::start_timeout);
}

TEST_CASE("behind a ready engine a queued request has no deadline") {
    Simulation sim;
    sim.start_ready();
    const auto first = sim.submit();
    const auto second = sim.submit();
    sim.time.settle();
    for (int i = 0; i < 40; ++i) {
        sim.launcher.last().say("PONG " + std::to_string(i));
        sim.launcher.last().say(Simulation::token_line(first->id, 5));
        sim.time.advance(seconds(5));
        const std::size_t pings = sim.launcher.last().written_count("PING ");
        sim.launcher.last().say("PONG " + std::to_string(pings));
    }
    CHECK_FALSE(second->ended());
    CHECK(sim.state() == EngineState::ready);
}

TEST_CASE("the wait for the next epoch is counted from the death of the engine") {
    Simulation sim;
    sim.start_ready();
    const auto first = sim.submit();
    const auto second = sim.submit();
    sim.time.advance(seconds(4));
    sim.launcher.last().end(kCrash);
    sim.time.settle();
    REQUIRE(first->failure);
    CHECK(first->failure->kind == FailureKind::engine_died);
    sim.time.advance(Milliseconds(29999));
    CHECK_FALSE(second->ended());
    sim.time.advance(Milliseconds(1));
    CHECK(second->failure->kind == FailureKind::start_timeout);
}

TEST_CASE("ids are counted up for ever and across epochs") {
    Simulation sim;
    sim.start_ready();
    RequestId last = 0;
    for (int epoch = 0; epoch < 3; ++epoch) {
        for (int i = 0; i < 3; ++i) {
            const auto request = sim.submit();
            CHECK(request->id > last);
            last = request->id;
            sim.time.settle();
            sim.launcher.last().say(Simulation::done_line(request->id, 0));
        }
        sim.launcher.last().end(kCrash);
        sim.time.advance(seconds(3));
        sim.launcher.last().say_ready();
        sim.time.settle();
    }
    CHECK(sim.complaints() == "");
}

TEST_CASE("the view shows the running request and the load") {
    Simulation sim;
    sim.supervisor.start();
    sim.time.settle();
    CHECK(sim.state() == EngineState::loading);
    sim.launcher.last().say("LOAD 0 1000");
    sim.time.advance(seconds(1));
    sim.launcher.last().say("LOAD 250 1000");
    CHECK(sim.supervisor.view().load_progress == 0.25);
    CHECK(sim.supervisor.view().eta == seconds(3));
    sim.launcher.last().say_ready();
    CHECK(sim.supervisor.view().max_context == 4096);
    CHECK(sim.supervisor.view().info->vocab == 1000000);
    const auto request = sim.submit(77);
    sim.time.settle();
    const std::string id = " id=" + std::to_string(request->id);
    sim.launcher.last().say("RESUME 1" + id + " source=live");
    CHECK(sim.supervisor.view().prompt_read == 1);
    sim.launcher.last().say("PP 3 3 1.0 2000.0" + id);
    sim.launcher.last().say(Simulation::token_line(request->id, 5));
    const EngineView view = sim.supervisor.view();
    CHECK(view.busy);
    CHECK(view.active_id == request->id);
    CHECK(view.prompt_tokens == 3);
    CHECK(view.prompt_read == 3);
    CHECK(view.generated == 1);
    CHECK(view.max_tokens == 77);
    CHECK(request->resume->reused == 1);
    CHECK(request->progress.size() == 1);
}
