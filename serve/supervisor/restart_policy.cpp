// The back-off curve and its end.
#include "serve/supervisor/restart_policy.hpp"

#include <algorithm>

#include "serve/supervisor/defences.hpp"

namespace strata::serve {

RestartDecision decide_restart(const RestartRecord& record, const EngineEnd& end,
                               const RestartLimits& limits, double dice) {
    RestartDecision decision;
    if (!defended(Defence::restart_limits)) return decision;
    const bool was_healthy = end.ready_for && *end.ready_for >= limits.healthy;
    decision.record.failures = was_healthy ? 1 : record.failures + 1;
    const bool in_load = end.phase == EnginePhase::spawn || end.phase == EnginePhase::load;
    decision.record.load_failures = in_load ? record.load_failures + 1 : 0;
    decision.again = end.retryable && decision.record.load_failures < limits.load_failures_max;

    const auto step = std::min(static_cast<std::size_t>(decision.record.failures) - 1,
                               limits.back_off.size() - 1);
    const double part = 1.0 + limits.jitter * (2.0 * dice - 1.0);
    const double wait_ms = static_cast<double>(limits.back_off[step].count()) * part;
    decision.wait = Milliseconds(static_cast<std::int64_t>(wait_ms));
    return decision;
}

}  // namespace strata::serve
