// TRIM: run one pressure check now; answered by PRESSURE.
#pragma once

#include <string>
#include <string_view>

#include "protocol/err_line.hpp"

namespace strata::protocol {

inline constexpr std::string_view kTrimVerb = "TRIM";

struct TrimCommand {
    friend bool operator==(const TrimCommand&, const TrimCommand&) = default;
};

std::string format(const TrimCommand& command);
Parsed<TrimCommand> parse_trim_command(std::string_view line);

}  // namespace strata::protocol
