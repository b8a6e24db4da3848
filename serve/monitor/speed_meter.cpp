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

}  // namespace strata::serve
