#include "serve/monitor/speed_meter.hpp"

#include <cmath>

namespace strata::serve {
namespace {

std::size_t place_of(std::int64_t second) {
    return static_cast<std::size_t>(second) % SpeedMeter::kSeconds;
}

}  // namespace

SpeedSample& SpeedMeter::at(double now_s) {
    const auto second = static_cast<std::int64_t>(std::floor(now_s));
    SpeedSample& sample = ring_[place_of(second)];
    if (sample.second != second) sample = {second, 0, 0};
    return sample;
}

std::vector<SpeedSample> SpeedMeter::samples(double now_s) const {
    const auto now = static_cast<std::int64_t>(std::floor(now_s));
    std::vector<SpeedSample> out;
    out.reserve(kSeconds);
    for (std::int64_t second = now - static_cast<std::int64_t>(kSeconds) + 1; second <= now;
         ++second) {
        if (second < 0) {
            out.push_back({second, 0, 0});
            continue;
        }
        const SpeedSample& kept = ring_[place_of(second)];
        out.push_back(kept.second == second ? kept : SpeedSample{second, 0, 0});
    }
    return out;
}

std::optional<std::int64_t> reading_left_s(const std::vector<SpeedSample>& samples,
                                           double elapsed_s, std::int64_t tokens_left) {
    if (samples.empty() || !(elapsed_s > 0)) return std::nullopt;
    const bool longer = elapsed_s >= static_cast<double>(kRateSeconds);
    // Of a longer run the whole seconds alone: the newest sample is a second that is not over.
    const std::size_t newest = longer ? 1 : 0;
    const std::size_t count =
        longer ? kRateSeconds : static_cast<std::size_t>(std::floor(elapsed_s)) + 1;
    std::int64_t tokens = 0;
    for (std::size_t i = newest; i < newest + count && i < samples.size(); ++i) {
        tokens += samples[samples.size() - 1 - i].read_tokens;
    }
    if (tokens <= 0) return std::nullopt;
    const double seconds = longer ? static_cast<double>(kRateSeconds) : elapsed_s;
    const double left = static_cast<double>(tokens_left) * seconds / static_cast<double>(tokens);
    return static_cast<std::int64_t>(std::ceil(left));
}

}  // namespace strata::serve
