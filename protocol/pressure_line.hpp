// PRESSURE: what one pressure check found and released. Names only.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/err_line.hpp"
#include "protocol/held_figures.hpp"

namespace strata::protocol {

inline constexpr std::string_view kPressureVerb = "PRESSURE";

enum class PressureWhere : std::uint8_t {
    request,  // before a request, or between its prompt chunks
    idle,
    window,   // between decode windows
    command,  // TRIM
};
std::string_view word(PressureWhere where);
std::optional<PressureWhere> pressure_where_of(std::string_view word);

// A figure that is absent is unknown: a reading that failed, or an older engine.
struct PressureLine {
    std::optional<std::int64_t> available_before_mib;
    std::optional<std::int64_t> available_after_mib;
    std::optional<std::int64_t> floor_mib;
    std::optional<std::int64_t> target_mib;  // floor + hysteresis
    std::optional<std::int64_t> released_dialogs;
    std::optional<std::int64_t> released_mib;
    std::optional<std::int64_t> retained_mib;  // given back of the live one's kept K/V
    std::optional<std::int64_t> lane_checkpoints_mib;
    std::optional<double> ms;  // one decimal on the wire
    HeldFigures now;           // what is left
    std::optional<PressureWhere> where;
    std::optional<bool> exhausted;  // nothing was left to release
    friend bool operator==(const PressureLine&, const PressureLine&) = default;
};

std::string format(const PressureLine& line);
Parsed<PressureLine> parse_pressure_line(std::string_view line);

}  // namespace strata::protocol
