// STOP: end a request. `STOP [id=N]`
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/err_line.hpp"

namespace strata::protocol {

inline constexpr std::string_view kStopVerb = "STOP";

struct StopCommand {
    std::optional<std::uint64_t> id;  // absent: the running one
    friend bool operator==(const StopCommand&, const StopCommand&) = default;
};

std::string format(const StopCommand& command);
Parsed<StopCommand> parse_stop_command(std::string_view line);

}  // namespace strata::protocol
