// QUIT: end the running request as cancelled and leave with status 0.
#pragma once

#include <string>
#include <string_view>

#include "protocol/err_line.hpp"

namespace strata::protocol {

inline constexpr std::string_view kQuitVerb = "QUIT";

struct QuitCommand {
    friend bool operator==(const QuitCommand&, const QuitCommand&) = default;
};

std::string format(const QuitCommand& command);
Parsed<QuitCommand> parse_quit_command(std::string_view line);

}  // namespace strata::protocol
