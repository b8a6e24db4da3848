// Is the engine alive? Pure functions of the last signs of life. Two limits: the main loop answers
// PING (a stuck loop cannot), and the running request makes progress (a loop that only answers PING
// is no use). An engine that is slow but moves is alive.
#pragma once

#include <cstdint>
#include <optional>

#include "serve/supervisor/time_source.hpp"

namespace strata::serve {

struct LivenessLimits {
    Milliseconds ping_every = std::chrono::seconds(5);
    // Six PINGs; the engine promises an answer within one prompt chunk (250 ms) or one token.
    Milliseconds pong = std::chrono::seconds(30);
    // The longest single step seen on slow disks and big restores is under a minute.
    Milliseconds progress = std::chrono::seconds(300);
};

// Absent: that limit does not apply now.
struct SignsOfLife {
    std::optional<TimePoint> last_ping;           // sent; of an engine that can PING
    std::optional<TimePoint> last_pong;           // or READY
    std::optional<TimePoint> last_progress;       // of the running request, or its beginning
    std::optional<TimePoint> last_load_progress;  // while loading
};

enum class Liveness : std::uint8_t { alive, no_pong, no_progress, load_stalled };

Liveness judge(const SignsOfLife& signs, const LivenessLimits& limits, TimePoint now);
bool ping_due(const SignsOfLife& signs, const LivenessLimits& limits, TimePoint now);
// The moment at which one of the answers above can change; absent: none will.
std::optional<TimePoint> next_look(const SignsOfLife& signs, const LivenessLimits& limits);

// A look that comes this late was late because we stood still ourselves (suspended, stopped,
// starved): the engine's answers lie unread in the pipe.
inline constexpr Milliseconds kOwnStall = std::chrono::seconds(2);

// Time left until bytes_total at the average speed so far; absent while nothing was read.
std::optional<std::chrono::seconds> load_time_left(Milliseconds elapsed, std::uint64_t bytes_done,
                                                   std::uint64_t bytes_total);

}  // namespace strata::serve
