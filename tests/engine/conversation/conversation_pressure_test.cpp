// Memory pressure with scripted readings: what is released, in which order, until when, and what is
// said about it (DETAILS.md, Memory pressure).
#include "strata/core/conversation_pressure.hpp"

#include <vector>

#include <catch2/catch.hpp>

namespace strata {
namespace {

using P = PressureStep;

constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr PressureLimits kLimits{1000 * kMib, 100 * kMib, 3};

MemoryReading mib(std::uint64_t available) {
    return {available * kMib, MemoryBound::host};
}

// A machine whose holdings shrink as it is told, and whose readings come from a script; without one
// left, what was released comes back as available.
struct Machine {
    explicit Machine(PressureHoldings held, std::vector<MemoryReading> readings)
        : holdings(held), script(std::move(readings)) {}

    MemoryReading read() {
        const MemoryReading reading = script[std::min(next, script.size() - 1)];
        ++next;
        return reading;
    }

    void act(P step) {
        steps.push_back(step);
        if (step == P::release_retained) {
            holdings.held_bytes -= holdings.retained_bytes;
            holdings.retained_bytes = 0;
        }
        if (step == P::release_oldest) {
            holdings.held_bytes -= 50 * kMib;
            --holdings.releasable;
            --holdings.parked;
        }
        if (step == P::release_lane_checkpoints) holdings.lane_checkpoint_bytes = 0;
    }

    void check(ConversationPressure& pressure, PressureWhere where = PressureWhere::idle,
               bool may_settle = true) {
        steps.clear();
        P step = pressure.begin(where, read(), holdings, may_settle);
        while (step != P::done) {
            act(step);
            step = pressure.next(read(), holdings);
        }
    }

    PressureHoldings holdings;
    std::vector<MemoryReading> script;
    std::size_t next = 0;
    std::vector<P> steps;
};

// Two parked conversations of 50 MiB and 20 MiB of retained K/V.
PressureHoldings two_dialogs() {
    return {120 * kMib, 20 * kMib, 0, 2, 2};
}

}  // namespace

TEST_CASE("at the floor and above it one reading is taken and nothing happens") {
    for (const std::uint64_t available : {1000U, 1001U, 1099U, 1100U, 5000U}) {
        ConversationPressure pressure(kLimits);
        Machine machine(two_dialogs(), {mib(available)});
        machine.check(pressure);
        CHECK(machine.next == 1);
        CHECK(machine.steps.empty());
        CHECK_FALSE(pressure.report().event);
    }
}

TEST_CASE("one byte below the floor an event begins") {
    ConversationPressure pressure(kLimits);
    Machine machine(two_dialogs(), {{1000 * kMib - 1, MemoryBound::host}, mib(1100)});
    machine.check(pressure);
    CHECK(pressure.report().event);
}

TEST_CASE("settling the heap alone may suffice") {
    ConversationPressure pressure(kLimits);
    Machine machine(two_dialogs(), {mib(900), mib(1100)});
    machine.check(pressure);
    CHECK(machine.steps == std::vector{P::settle});
    CHECK(pressure.report().settled);
    CHECK(pressure.report().released_bytes() == 0);
    CHECK(pressure.report().after_bytes == 1100 * kMib);
    CHECK_FALSE(pressure.report().exhausted);
}

TEST_CASE("releasing goes on through the band until floor and hysteresis are there") {
    ConversationPressure pressure(kLimits);
    Machine machine(two_dialogs(), {mib(900), mib(1010), mib(1099), mib(1100)});
    machine.check(pressure);
    CHECK(machine.steps == std::vector{P::settle, P::release_retained, P::release_oldest});
    CHECK(pressure.report().released_dialogs == 1);
    CHECK(pressure.report().dialog_bytes == 50 * kMib);
    CHECK(pressure.report().retained_bytes == 20 * kMib);
    CHECK(pressure.report().parked == 1);
}

TEST_CASE("retained pages go first then dialogs then what idle lanes hold") {
    ConversationPressure pressure(kLimits);
    PressureHoldings held = two_dialogs();
    held.lane_checkpoint_bytes = 30 * kMib;
    Machine machine(held, {mib(500)});
    machine.check(pressure);
    CHECK(machine.steps == std::vector{P::settle, P::release_retained, P::release_oldest,
                                       P::release_oldest, P::release_lane_checkpoints});
    CHECK(pressure.report().exhausted);
    CHECK(pressure.report().released_bytes() == 150 * kMib);
    CHECK(pressure.report().lane_checkpoint_bytes == 30 * kMib);
}

TEST_CASE("while a request is answered the heap is not settled") {
    ConversationPressure pressure(kLimits);
    Machine machine(two_dialogs(), {mib(900), mib(1100)});
    machine.check(pressure, PressureWhere::window, false);
    CHECK(machine.steps == std::vector{P::release_retained});
    CHECK_FALSE(pressure.report().settled);
}

TEST_CASE("with only pinned dialogs the event is exhausted and said once") {
    ConversationPressure pressure(kLimits);
    Machine machine({100 * kMib, 0, 0, 0, 2}, {mib(900)});
    machine.check(pressure);
    CHECK(machine.steps == std::vector{P::settle});
    CHECK(pressure.report().event);
    CHECK(pressure.report().exhausted);
    for (int again = 0; again < 3; ++again) {
        const std::size_t readings = machine.next;
        machine.check(pressure);
        CHECK(machine.steps.empty());
        CHECK(machine.next == readings + 1);
        CHECK_FALSE(pressure.report().event);
    }
    SECTION("a request ran") {
        pressure.request_ran();
    }
    SECTION("held bytes grew") {
        machine.holdings.held_bytes += 1;
    }
    SECTION("held bytes shrank") {
        machine.holdings.held_bytes -= 1;
    }
    machine.check(pressure);
    CHECK(pressure.report().event);
}

TEST_CASE("an event that released everything is the last one while the need lasts") {
    ConversationPressure pressure(kLimits);
    Machine machine(two_dialogs(), {mib(900)});
    machine.check(pressure);
    CHECK(pressure.report().released_dialogs == 2);
    CHECK(pressure.report().exhausted);
    machine.check(pressure);
    CHECK_FALSE(pressure.report().event);
}

TEST_CASE("a person who asks gets a try even after an exhausted event") {
    ConversationPressure pressure(kLimits);
    Machine machine({0, 0, 0, 0, 0}, {mib(900)});
    machine.check(pressure);
    machine.check(pressure, PressureWhere::command);
    CHECK(pressure.report().event);
    CHECK(machine.steps == std::vector{P::settle});
}

TEST_CASE("an exhausted event is said again after the need had gone") {
    ConversationPressure pressure(kLimits);
    Machine machine({0, 0, 0, 0, 0}, {mib(900), mib(900), mib(2000), mib(900), mib(900)});
    machine.check(pressure);
    machine.check(pressure);
    CHECK_FALSE(pressure.report().event);
    machine.check(pressure);
    // Nothing ran and nothing changed: it stays said.
    CHECK_FALSE(pressure.report().event);
}

TEST_CASE("an unknown reading releases nothing and one that is lost midway stops") {
    ConversationPressure pressure(kLimits);
    Machine unknown(two_dialogs(), {MemoryReading{}});
    unknown.check(pressure);
    CHECK(unknown.steps.empty());
    CHECK_FALSE(pressure.report().event);
    CHECK_FALSE(pressure.report().before_bytes);

    for (std::size_t lost = 1; lost <= 3; ++lost) {
        std::vector<MemoryReading> script(lost, mib(900));
        script.push_back({});
        Machine machine(two_dialogs(), script);
        machine.check(pressure);
        CHECK(machine.steps.size() == lost);
        CHECK(pressure.report().event);
        CHECK_FALSE(pressure.report().after_bytes);
        CHECK(pressure.report().last_known_bytes == 900 * kMib);
        CHECK_FALSE(pressure.report().exhausted);
    }
}

TEST_CASE("at most slots and two units are released in one event") {
    ConversationPressure pressure(kLimits);
    P step = pressure.begin(PressureWhere::idle, mib(10), {1000 * kMib, 5 * kMib, 0, 9, 9}, true);
    std::int64_t units = 0;
    while (step != P::done) {
        units += step == P::settle ? 0 : 1;
        // Nothing that is done shows: the holdings stay as they were.
        step = pressure.next(mib(10), {1000 * kMib, 5 * kMib, 0, 9, 9});
    }
    CHECK(units == kLimits.slots + 2);
    CHECK(pressure.report().bound_reached);
    CHECK_FALSE(pressure.report().exhausted);
}

TEST_CASE("the line is exactly of its form") {
    PressureReport report;
    report.where = PressureWhere::idle;
    report.before_bytes = 9761 * kMib + 5;
    report.last_known_bytes = 11901 * kMib;
    report.after_bytes = report.last_known_bytes;
    report.floor_bytes = 10240 * kMib;
    report.hysteresis_bytes = 1024 * kMib;
    report.released_dialogs = 2;
    report.dialog_bytes = 2000 * kMib;
    report.retained_bytes = 180 * kMib + 7;
    report.parked = 1;
    CHECK(pressure_text(report, 131.4) ==
          "conversation cache: RAM below the floor: released 2 dialogs, 2180 MiB (dropped) in 131 "
          "ms; idle: 9761 -> 11901 MiB available, floor 10240 MiB + 1024; parked=1");
    report.where = PressureWhere::request;
    CHECK(pressure_text(report, 0).find("; request: ") != std::string::npos);
}

TEST_CASE("the idle slice shortens as the floor comes near") {
    const std::uint64_t floor = 1000 * kMib;
    const auto slice = [&](std::uint64_t headroom, std::int64_t period = 2000) {
        return idle_slice_ms({floor + headroom, MemoryBound::host}, floor, period);
    };
    CHECK(slice(0) == 50);
    CHECK(slice(400'000'000) == 50);
    CHECK(slice(408'000'000) == 51);
    CHECK(slice(8'000'000'000) == 1000);
    CHECK(slice(16'000'000'000) == 2000);
    CHECK(slice(64'000'000'000) == 2000);
    CHECK(slice(0, 20) == 20);
    CHECK(slice(64'000'000'000, 500) == 500);
    CHECK(slice(0, 0) == 0);
    CHECK(idle_slice_ms({}, floor, 2000) == 2000);
    CHECK(idle_slice_ms({floor - 1, MemoryBound::host}, floor, 2000) == 2000);
}

}  // namespace strata
