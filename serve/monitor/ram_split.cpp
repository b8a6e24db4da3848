// See serve/monitor/ram_split.hpp.
#include "serve/monitor/ram_split.hpp"

#include <algorithm>

namespace strata::serve {

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr const char* kDeviceOfRam = "cpu";  // INFO's device whose weights and K/V lie in RAM

// Takes as much of `wanted` as `left` has.
std::optional<std::int64_t> take(std::int64_t& left, const std::optional<std::int64_t>& wanted) {
    if (!wanted) return std::nullopt;
    const std::int64_t taken = std::clamp<std::int64_t>(*wanted, 0, left);
    left -= taken;
    return taken;
}

std::optional<std::int64_t> times(const std::optional<std::int64_t>& a,
                                  const std::optional<std::int64_t>& b) {
    std::int64_t product = 0;
    if (!a || !b || __builtin_mul_overflow(*a, *b, &product)) return std::nullopt;
    return product;
}

void split_engine(RamSplit& split, std::int64_t engine_bytes, const protocol::InfoLine& info,
                  const CachePresent& present) {
    std::int64_t left = engine_bytes;
    split.parked_bytes = take(left, present.parked_bytes());
    split.retained_bytes = take(left, present.retained);
    split.checkpoints_bytes = take(left, times(present.checkpoints, info.state_bytes));
    if (info.device == kDeviceOfRam) {
        split.active_kv_bytes = take(left, times(present.live_tokens, info.kv_bytes_per_token));
        split.weights_bytes = take(left, times(info.weights_mib, kMiB));
    }
    split.engine_other_bytes = left;
}

}  // namespace

std::optional<RamSplit> ram_split(const HardwareReading& reading,
                                  const std::optional<protocol::InfoLine>& info,
                                  const CachePresent& present) {
    if (!reading.ram_total_bytes || !reading.ram_available_bytes) return std::nullopt;
    RamSplit split;
    std::int64_t left = *reading.ram_total_bytes;
    const auto engine_bytes = take(left, reading.engine_resident_bytes);
    split.server_bytes = take(left, reading.server_resident_bytes);
    split.free_bytes = *take(left, reading.ram_available_bytes);
    split.other_bytes = left;
    if (engine_bytes) {
        split_engine(split, *engine_bytes, info.value_or(protocol::InfoLine{}), present);
    }
    return split;
}

}  // namespace strata::serve
