// Row C13 by simulation: engines that write late, twice or never, clients that leave, restarts at
// any moment; every token of a request carries its canary, and no request may see another one's.
#include <random>

#include <catch2/catch.hpp>

#include "tests/serve/supervisor/defence_switch.hpp"
#include "tests/serve/supervisor/simulation.hpp"

using namespace strata::serve;
using namespace strata::serve::tests;

namespace {

constexpr int kInterleavings = 10'000;  // times long_factor()
constexpr int kStepsOfOne = 30;
constexpr std::int64_t kCanaryStride = 1000;

// One random history of a supervisor and its engines.
class History {
  public:
    explicit History(std::uint32_t seed) : dice_(seed) { sim_.start_ready(); }

    void run() {
        for (int step = 0; step < kStepsOfOne; ++step) take_step();
        finish();
    }
    // Empty, or what went wrong.
    std::string verdict() const {
        std::string wrong = sim_.complaints();
        for (const auto& listener : sim_.listeners) {
            for (const std::int32_t token : listener->tokens) {
                if (token / kCanaryStride == static_cast<std::int64_t>(listener->id)) continue;
                wrong += "request " + std::to_string(listener->id) + " got token " +
                         std::to_string(token) + "; ";
            }
            if (listener->done && listener->done->id != listener->id) {
                wrong += "request " + std::to_string(listener->id) + " got another DONE; ";
            }
        }
        return wrong;
    }

  private:
    std::uint32_t roll(std::uint32_t sides) { return static_cast<std::uint32_t>(dice_() % sides); }

    ProcessRecord& engine() { return sim_.launcher.last(); }

    // The id of a request of the engine's past or present.
    std::uint64_t some_id() {
        const std::uint64_t newest = std::max<std::uint64_t>(engine().last_gen_id(), 1);
        return roll(3) == 0 ? 1 + roll(static_cast<std::uint32_t>(newest)) : newest;
    }

    void take_step() {
        switch (roll(10)) {
            case 0:
            case 1:
                sim_.submit();
                break;
            case 2:
                cancel_one();
                break;
            case 3:
            case 4:
            case 5: {
                const std::uint64_t id = some_id();
                engine().say(Simulation::token_line(
                    id, static_cast<std::int64_t>(id) * kCanaryStride + roll(1000)));
                break;
            }
            case 6:
            case 7:
                engine().say(Simulation::done_line(some_id(), 1));
                break;
            case 8:
                if (!sim_.listeners.empty()) {
                    sim_.supervisor.stop_writing(
                        1 + roll(static_cast<std::uint32_t>(sim_.listeners.size())));
                }
                break;
            default:
                if (roll(4) == 0) restart();
        }
        if (roll(2) == 0) sim_.time.settle();
    }

    void cancel_one() {
        if (sim_.listeners.empty()) return;
        const auto& chosen =
            sim_.listeners[roll(static_cast<std::uint32_t>(sim_.listeners.size()))];
        if (!chosen->ended() && !chosen->cancelled) sim_.cancel(chosen);
    }

    // The old engine's last words come after its end was seen, some even after the new one began.
    void restart() {
        const auto old = sim_.launcher.launches.back();
        old->events->on_exit(kCrash);
        if (roll(2) == 0) old->say(Simulation::done_line(some_id(), 1));
        old->events->on_drained();
        sim_.time.advance(std::chrono::seconds(70));
        engine().say_ready();
        sim_.time.settle();
        if (roll(2) == 0) engine().say(Simulation::done_line(some_id(), 1));
    }

    void finish() {
        sim_.time.settle();
        while (sim_.supervisor.view().busy) {
            engine().say(Simulation::done_line(engine().last_gen_id(), 1));
            sim_.time.settle();
        }
    }

    std::mt19937 dice_;
    Simulation sim_;
};

}  // namespace

TEST_CASE("no request hears a token or an end of another one in random interleavings", "[C13]") {
    const int histories = kInterleavings * long_factor();
    for (int seed = 0; seed < histories; ++seed) {
        History history(static_cast<std::uint32_t>(seed));
        history.run();
        INFO("row C13: seed " << seed);
        REQUIRE(history.verdict() == "");
    }
}

TEST_CASE("late and double and missing ends of a cancelled request do not move the next one",
          "[C13]") {
    Simulation sim;
    sim.start_ready();
    const auto first = sim.submit();
    const auto second = sim.submit();
    sim.time.settle();
    sim.cancel(first);
    ProcessRecord& engine = sim.launcher.last();
    engine.say(Simulation::done_line(first->id, 0, "cancel"));
    sim.time.settle();
    REQUIRE(second->ticket);
    engine.say(Simulation::token_line(first->id, 1000));
    engine.say(Simulation::done_line(first->id, 1));
    engine.say(Simulation::done_line(first->id, 1));
    engine.say("DONE 1 3 1.0 1.0 length 0 0 0 0 0 0 0 0 3");
    INFO("row C13: what carries another id moves nothing");
    REQUIRE_FALSE(second->ended());
    CHECK(second->tokens.empty());
    CHECK(sim.supervisor.view().foreign_lines == 4);
    CHECK(sim.log.count("of no running request") == 1);
    engine.say(Simulation::token_line(second->id, 2000));
    engine.say(Simulation::done_line(second->id, 1));
    CHECK(second->done->id == second->id);
    CHECK(second->tokens == std::vector<std::int32_t>{2000});
}
