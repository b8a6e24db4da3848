// PING: ask the main loop for a sign of life. `PING n`
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/err_line.hpp"

namespace strata::protocol {

inline constexpr std::string_view kPingVerb = "PING";

struct PingCommand {
    std::uint64_t n = 0;  // comes back on PONG
    friend bool operator==(const PingCommand&, const PingCommand&) = default;
};

std::string format(const PingCommand& command);
Parsed<PingCommand> parse_ping_command(std::string_view line);

}  // namespace strata::protocol
