// The units in which the engine's lines count.
#pragma once

#include <chrono>
#include <cstdint>

#include "strata/engine.hpp"

namespace strata {

inline constexpr std::uint64_t kBytesPerMib = std::uint64_t{1} << 20;

// Lines carry signed numbers; no count of bytes comes near their end.
inline std::int64_t line_number(std::uint64_t value) {
    return static_cast<std::int64_t>(value);
}

// Rounded down.
inline std::int64_t whole_mib(std::uint64_t bytes) {
    return line_number(bytes / kBytesPerMib);
}

inline double ms_between(TimePoint from, TimePoint to) {
    return std::chrono::duration<double, std::milli>(to - from).count();
}

inline TimePoint later_by(double ms, TimePoint from) {
    const std::chrono::duration<double, std::milli> span(ms);
    return from + std::chrono::duration_cast<TimePoint::duration>(span);
}

}  // namespace strata
