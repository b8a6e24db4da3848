// The limits of the watchdog.
#include "serve/supervisor/liveness.hpp"

#include <algorithm>
#include <cmath>

namespace strata::serve {

namespace {

bool over(const std::optional<TimePoint>& sign, Milliseconds limit, TimePoint now) {
    return sign && now - *sign >= limit;
}

}  // namespace

Liveness judge(const SignsOfLife& signs, const LivenessLimits& limits, TimePoint now) {
    if (over(signs.last_pong, limits.pong, now)) return Liveness::no_pong;
    if (over(signs.last_progress, limits.progress, now)) return Liveness::no_progress;
    if (over(signs.last_load_progress, limits.progress, now)) return Liveness::load_stalled;
    return Liveness::alive;
}

bool ping_due(const SignsOfLife& signs, const LivenessLimits& limits, TimePoint now) {
    return over(signs.last_ping, limits.ping_every, now);
}

std::optional<TimePoint> next_look(const SignsOfLife& signs, const LivenessLimits& limits) {
    std::optional<TimePoint> first;
    const auto consider = [&first](const std::optional<TimePoint>& sign, Milliseconds limit) {
        if (!sign) return;
        const TimePoint when = *sign + limit;
        first = first ? std::min(*first, when) : when;
    };
    consider(signs.last_ping, limits.ping_every);
    consider(signs.last_pong, limits.pong);
    consider(signs.last_progress, limits.progress);
    consider(signs.last_load_progress, limits.progress);
    return first;
}

std::optional<std::chrono::seconds> load_time_left(Milliseconds elapsed, std::uint64_t bytes_done,
                                                   std::uint64_t bytes_total) {
    if (bytes_done == 0 || elapsed.count() <= 0) return std::nullopt;
    const double left = static_cast<double>(bytes_total - std::min(bytes_done, bytes_total));
    const double seconds =
        static_cast<double>(elapsed.count()) / 1000.0 * left / static_cast<double>(bytes_done);
    return std::chrono::seconds(static_cast<std::int64_t>(std::ceil(seconds)));
}

}  // namespace strata::serve
