#include "engine/model/rope.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace strata {
namespace {

// The pair (as a real number) that turns `turns` times within the original context.
double pair_with_turns(const RopeConfig& rope, double turns) {
    const double context = static_cast<double>(rope.original_context);
    return static_cast<double>(rope.dims) * std::log(context / (turns * 2.0 * std::numbers::pi)) /
           (2.0 * std::log(rope.base));
}

// How much of pair i keeps its own frequency: 1 for fast pairs, 0 for slow ones, a ramp between.
double kept_share(const RopeConfig& rope, double pair) {
    constexpr double kRampMin = 0.001;  // a ramp of no width is a step
    const double low = std::max(0.0, std::floor(pair_with_turns(rope, rope.beta_fast)));
    const double high = std::min(static_cast<double>(rope.dims - 1),
                                 std::ceil(pair_with_turns(rope, rope.beta_slow)));
    const double ramp = (pair - low) / std::max(kRampMin, high - low);
    return (1.0 - std::clamp(ramp, 0.0, 1.0)) * rope.ext_factor;
}

}  // namespace

std::vector<double> rope_frequencies(const RopeConfig& rope, std::span<const float> divisors) {
    std::vector<double> out(static_cast<std::size_t>(rope.dims / 2));
    for (std::size_t i = 0; i < out.size(); ++i) {
        const double pair = static_cast<double>(i);
        double frequency = std::pow(rope.base, -2.0 * pair / static_cast<double>(rope.dims));
        if (!divisors.empty()) frequency /= static_cast<double>(divisors[i]);
        switch (rope.scaling) {
            case RopeScaling::none:
                break;
            case RopeScaling::linear:
                frequency /= rope.factor;
                break;
            case RopeScaling::yarn: {
                const double kept = kept_share(rope, pair);
                frequency *= (1.0 - kept) / rope.factor + kept;
                break;
            }
        }
        out[i] = frequency;
    }
    return out;
}

double rope_magnitude(const RopeConfig& rope) {
    if (rope.scaling != RopeScaling::yarn) return 1.0;
    constexpr double kPerLog = 0.1;
    const double log_factor = std::log(rope.factor);
    return rope.attention_factor * (1.0 + kPerLog * log_factor) /
           (1.0 + kPerLog * rope.yarn_log_multiplier * log_factor);
}

}  // namespace strata
