// Any command, server to engine: picks the parser by the line's first word. What a line means is in
// its own file.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "protocol/cache_command.hpp"
#include "protocol/err_line.hpp"
#include "protocol/gen_command.hpp"
#include "protocol/ping_command.hpp"
#include "protocol/quit_command.hpp"
#include "protocol/session_command.hpp"
#include "protocol/stop_command.hpp"
#include "protocol/trim_command.hpp"

namespace strata::protocol {

using Command = std::variant<GenCommand, StopCommand, CacheCommand, TrimCommand, PingCommand,
                             SaveCommand, RestoreCommand, QuitCommand>;

// `line` without LF. An unknown word is bad_line. The error's text names the field, its value and
// what is allowed, and carries the id of the line when that could be read.
Parsed<Command> parse_command(std::string_view line);
std::string format(const Command& command);

// The refusal of a line that a LineReader dropped for its length; `head` is what it kept of it.
ParseError overlong_command(std::string_view head);

}  // namespace strata::protocol
