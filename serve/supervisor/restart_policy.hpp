// When the next engine is started, and when no more: pure functions of what was counted and what
// just ended. The caller has the clock, the dice and the processes.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <optional>

#include "serve/supervisor/time_source.hpp"

namespace strata::serve {

// What the engine was doing.
enum class EnginePhase : std::uint8_t { spawn, load, idle, prefill, decode, shutdown };

struct RestartLimits {
    // Before the first, second ... restart in a row; the last one repeats. 108 s in sum: one start
    // and seven restarts of a load that always fails.
    std::array<Milliseconds, 7> back_off{std::chrono::seconds(0),  std::chrono::seconds(1),
                                         std::chrono::seconds(2),  std::chrono::seconds(5),
                                         std::chrono::seconds(10), std::chrono::seconds(30),
                                         std::chrono::seconds(60)};
    // A load that failed this often will not succeed the next time either.
    int load_failures_max = 8;
    // An engine that was ready this long ends the row.
    Milliseconds healthy = std::chrono::minutes(10);
    // Each wait is changed by up to this part, so that servers that failed together part.
    double jitter = 0.1;
};

struct RestartRecord {
    int failures = 0;       // in a row
    int load_failures = 0;  // in a row, before READY
    friend bool operator==(const RestartRecord&, const RestartRecord&) = default;
};

struct EngineEnd {
    EnginePhase phase = EnginePhase::idle;
    bool retryable = true;                  // false: it would fail the same way for ever
    std::optional<Milliseconds> ready_for;  // since READY; absent: it never was
};

struct RestartDecision {
    bool again = true;     // false: FAILED
    Milliseconds wait{0};  // before the next start
    RestartRecord record;  // what is counted from now on
};

// `dice` in [0, 1).
RestartDecision decide_restart(const RestartRecord& record, const EngineEnd& end,
                               const RestartLimits& limits, double dice);

}  // namespace strata::serve
