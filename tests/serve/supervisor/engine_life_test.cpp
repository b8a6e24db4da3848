// The table of the engine's life, entry by entry, and what must hold of every walk through it.
#include "serve/supervisor/engine_life.hpp"

#include <array>
#include <random>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "serve/supervisor/free_vram.hpp"

using namespace strata::serve;
using std::chrono::seconds;

namespace {

using S = LifeState;
using E = LifeEvent;
using A = LifeAct;

constexpr std::array kStates = {S::unloaded, S::preparing, S::loading,   S::ready,
                                S::ending,   S::waiting,   S::unloading, S::reloading,
                                S::failed,   S::leaving,   S::stopped};
constexpr std::array kEvents = {E::load,  E::unload, E::leave, E::prepared,      E::refused,
                                E::ready, E::dying,  E::gone,  E::gone_for_good, E::due};

struct Entry {
    S state;
    E event;
    S next;
    A act;
};

// What people were promised (DETAILS.md, "Loading and unloading"); every pair that is not here
// changes nothing.
const std::vector<Entry> kPromised = {
    {S::unloaded, E::load, S::preparing, A::prepare},
    {S::unloaded, E::leave, S::stopped, A::none},
    {S::preparing, E::unload, S::unloaded, A::abandon},
    {S::preparing, E::leave, S::stopped, A::abandon},
    {S::preparing, E::prepared, S::loading, A::launch},
    {S::preparing, E::refused, S::unloaded, A::give_up},
    {S::loading, E::unload, S::unloading, A::quit},
    {S::loading, E::leave, S::leaving, A::quit},
    {S::loading, E::ready, S::ready, A::admit},
    {S::loading, E::dying, S::ending, A::none},
    {S::loading, E::gone, S::waiting, A::wait},
    {S::loading, E::gone_for_good, S::failed, A::give_up},
    {S::ready, E::unload, S::unloading, A::quit},
    {S::ready, E::leave, S::leaving, A::quit},
    {S::ready, E::dying, S::ending, A::none},
    {S::ready, E::gone, S::waiting, A::wait},
    {S::ready, E::gone_for_good, S::failed, A::give_up},
    {S::ending, E::unload, S::unloading, A::none},
    {S::ending, E::leave, S::leaving, A::kill},
    {S::ending, E::gone, S::waiting, A::wait},
    {S::ending, E::gone_for_good, S::failed, A::give_up},
    {S::waiting, E::load, S::preparing, A::prepare},
    {S::waiting, E::unload, S::unloaded, A::abandon},
    {S::waiting, E::leave, S::stopped, A::abandon},
    {S::waiting, E::due, S::preparing, A::prepare},
    {S::unloading, E::load, S::reloading, A::none},
    {S::unloading, E::leave, S::leaving, A::none},
    {S::unloading, E::gone, S::unloaded, A::none},
    {S::unloading, E::gone_for_good, S::unloaded, A::none},
    {S::reloading, E::unload, S::unloading, A::none},
    {S::reloading, E::leave, S::leaving, A::none},
    {S::reloading, E::gone, S::preparing, A::prepare},
    {S::reloading, E::gone_for_good, S::preparing, A::prepare},
    {S::failed, E::load, S::preparing, A::prepare},
    {S::failed, E::unload, S::unloaded, A::none},
    {S::failed, E::leave, S::stopped, A::none},
    {S::leaving, E::leave, S::leaving, A::kill},
    {S::leaving, E::gone, S::stopped, A::none},
    {S::leaving, E::gone_for_good, S::stopped, A::none},
};

LifeStep promised(S state, E event) {
    for (const Entry& entry : kPromised) {
        if (entry.state == state && entry.event == event) return {entry.next, entry.act};
    }
    return {state, A::none};
}

bool process_lives(S state) {
    return state == S::loading || state == S::ready || state == S::ending ||
           state == S::unloading || state == S::reloading || state == S::leaving;
}

}  // namespace

TEST_CASE("every state answers every event as promised") {
    static_assert(kStates.size() == kLifeStates);
    static_assert(kEvents.size() == kLifeEvents);
    for (const S state : kStates) {
        for (const E event : kEvents) {
            INFO("state " << static_cast<int>(state) << ", event " << static_cast<int>(event));
            const LifeStep step = life_step(state, event);
            const LifeStep wanted = promised(state, event);
            CHECK(static_cast<int>(step.state) == static_cast<int>(wanted.state));
            CHECK(static_cast<int>(step.act) == static_cast<int>(wanted.act));
        }
    }
}

TEST_CASE("no process is started while another one may live") {
    for (const S state : kStates) {
        for (const E event : kEvents) {
            const LifeStep step = life_step(state, event);
            if (step.act != A::launch && step.act != A::prepare) continue;
            const bool over = event == E::gone || event == E::gone_for_good;
            INFO("state " << static_cast<int>(state) << ", event " << static_cast<int>(event));
            CHECK((!process_lives(state) || over));
        }
    }
}

TEST_CASE("after leave nothing starts and the server stops") {
    std::mt19937 dice(7);
    for (int walk = 0; walk < 20'000; ++walk) {
        S state = S::unloaded;
        for (int i = 0; i < 12; ++i)
            state = life_step(state, kEvents[dice() % kEvents.size()]).state;
        state = life_step(state, E::leave).state;
        for (int i = 0; i < 12; ++i) {
            const LifeStep step = life_step(state, kEvents[dice() % kEvents.size()]);
            REQUIRE(step.act != A::launch);
            REQUIRE(step.act != A::prepare);
            state = step.state;
        }
        state = life_step(state, E::gone).state;
        REQUIRE(state == S::stopped);
    }
}

TEST_CASE(
    "an unload that nothing answers ends in unloaded from every state of a server that stays") {
    for (const S state : kStates) {
        if (state == S::leaving || state == S::stopped) continue;
        S now = life_step(state, E::unload).state;
        now = life_step(now, E::gone).state;
        INFO("state " << static_cast<int>(state));
        CHECK(now == S::unloaded);
        CHECK(settled(now));
    }
}

TEST_CASE("free GPU memory is enough on one GPU or on none") {
    const VramLimits limits;
    const std::vector<GpuMemory> two = {{"A", 1000, 24000}, {"B", 5000, 48000}};
    const auto verdict = [&](std::optional<std::vector<GpuMemory>> answer, std::int64_t min_mib,
                             Milliseconds waited) {
        return judge_vram(answer, min_mib, waited, limits);
    };
    CHECK(verdict(two, 4999, seconds(0)) == VramVerdict::enough);
    CHECK(verdict(two, 5000, seconds(0)) == VramVerdict::enough);
    CHECK(verdict(two, 5001, seconds(0)) == VramVerdict::look_again);
    CHECK(verdict(two, 5001, limits.settle - Milliseconds(1)) == VramVerdict::look_again);
    CHECK(verdict(two, 5001, limits.settle) == VramVerdict::too_little);
    CHECK(verdict(two, 6000, limits.settle) == VramVerdict::too_little);  // no sum of both
    CHECK(verdict(std::vector<GpuMemory>{}, 1, seconds(0)) == VramVerdict::unknown);
    CHECK(verdict(std::nullopt, 1, limits.answer - Milliseconds(1)) == VramVerdict::look_again);
    CHECK(verdict(std::nullopt, 1, limits.answer) == VramVerdict::unknown);
    CHECK(vram_text(two) == "1000 of 24000 MiB are free on A, 5000 of 48000 MiB are free on B");
}
