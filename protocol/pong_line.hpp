// PONG: the main loop's answer to PING. `PONG n`
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/err_line.hpp"

namespace strata::protocol {

inline constexpr std::string_view kPongVerb = "PONG";

struct PongLine {
    std::uint64_t n = 0;
    friend bool operator==(const PongLine&, const PongLine&) = default;
};

std::string format(const PongLine& line);
Parsed<PongLine> parse_pong_line(std::string_view line);

}  // namespace strata::protocol
