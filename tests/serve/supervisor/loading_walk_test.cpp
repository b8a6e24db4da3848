// Random walks through loading, unloading, requests, cancels, crashes and time, with a scripted
// engine: what must hold after every step, and that everything that was asked for comes to an end.
#include <memory>
#include <random>
#include <string>

#include <catch2/catch.hpp>
#include <signal.h>

#include "tests/serve/supervisor/simulation.hpp"

using namespace strata::serve;
using namespace strata::serve::tests;
using std::chrono::seconds;

namespace {

// Anything that can happen to a server whose engine comes and goes, in any order.
class Walk {
  public:
    explicit Walk(unsigned seed) : dice_(seed), sim_(config(seed)) {
        if (seed % 2 == 0) {
            sim_.supervisor.start();
        } else {
            sim_.supervisor.start_lazily();
        }
        sim_.time.settle();
    }

    void step() {
        switch (dice_() % 9) {
            case 0:
            case 1:
                sim_.submit();
                break;
            case 2:
                sim_.supervisor.load([this] { ++told_; });
                ++asked_;
                break;
            case 3:
                if (sim_.supervisor.unload([this] { ++told_; })) ++asked_;
                break;
            case 4:
                sim_.time.advance(seconds(dice_() % 12));
                break;
            case 5:
                end_process(kCrash);
                break;
            case 6:
                if (!sim_.listeners.empty()) cancel_one();
                break;
            default:
                behave();
                break;
        }
        sim_.time.settle();
        check();
    }

    // From now on everything works; all that was asked for must come to an end.
    void come_to_rest() {
        for (int i = 0; i < 200; ++i) {
            behave();
            sim_.time.advance(seconds(1));
            check();
        }
        for (const auto& listener : sim_.listeners) {
            REQUIRE((listener->cancelled || listener->final_calls == 1));
        }
        REQUIRE(sim_.complaints().empty());
        REQUIRE(told_ == asked_);
        bool stopped = false;
        sim_.supervisor.shut_down([&stopped] { stopped = true; });
        for (int i = 0; i < 3 && !stopped; ++i) {
            sim_.time.settle();
            end_process({false, 0, false});
            sim_.time.settle();
        }
        REQUIRE(stopped);
    }

  private:
    static SupervisorConfig config(unsigned seed) {
        SupervisorConfig config;
        config.idle_unload = seconds(seed % 3 == 0 ? 5 : 0);
        if (seed % 5 == 0) config.preparation.before_load = "stop-the-others";
        config.restart.jitter = 0;
        return config;
    }

    static bool alive(const ProcessRecord& process) { return !process.ended && !process.destroyed; }

    ProcessRecord* living() {
        for (const auto& process : sim_.launcher.launches) {
            if (alive(*process)) return process.get();
        }
        return nullptr;
    }

    void end_process(const ExitStatus& status) {
        if (ProcessRecord* process = living()) process->end(status);
        sim_.time.settle();
    }

    void cancel_one() {
        const auto& listener = sim_.listeners[dice_() % sim_.listeners.size()];
        if (!listener->ended() && !listener->cancelled) sim_.cancel(listener);
    }

    // What a good engine, or a good command, does next.
    void behave() {
        ProcessRecord* const process = living();
        if (process == nullptr) return;
        const EngineState state = sim_.state();
        if (state == EngineState::preparing) {
            process->end({});
        } else if (state == EngineState::loading) {
            process->say_ready();
        } else if (process->stdin_closed || process->signalled(SIGABRT)) {
            process->end({false, 0, false});
        } else if (state == EngineState::ready) {
            const std::size_t pings = process->written_count("PING ");
            if (pings > 0) process->say("PONG " + std::to_string(pings));
            if (sim_.supervisor.view().busy) {
                process->say(Simulation::done_line(sim_.supervisor.view().active_id, 0));
            }
        }
        sim_.time.settle();
    }

    void check() {
        std::size_t living_processes = 0;
        for (const auto& process : sim_.launcher.launches) living_processes += alive(*process);
        REQUIRE(living_processes <= 1);
        const EngineView view = sim_.supervisor.view();
        REQUIRE(view.info.has_value() == (view.state == EngineState::ready));
        if (view.state == EngineState::unloaded) {
            REQUIRE(living_processes == 0);
            REQUIRE(view.queued == 0);  // nobody waits for what nobody starts
        }
        if (view.unload_in) REQUIRE((view.state == EngineState::ready && !view.busy));
        REQUIRE(told_ <= asked_);
    }

    std::mt19937 dice_;
    Simulation sim_;
    int asked_ = 0;
    int told_ = 0;
};

}  // namespace

TEST_CASE("whatever comes in whatever order every request and every load has its end") {
    constexpr unsigned kWalks = 3000;
    constexpr int kSteps = 40;
    for (unsigned seed = 0; seed < kWalks; ++seed) {
        INFO("seed " << seed);
        Walk walk(seed);
        for (int i = 0; i < kSteps; ++i) walk.step();
        walk.come_to_rest();
    }
}
