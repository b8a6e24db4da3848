// Any event, engine to server: picks the parser by the line's first word. The reader is tolerant:
// names and positional fields that it does not know are passed over; a group that is missing is
// absent.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "protocol/cache_line.hpp"
#include "protocol/conv_line.hpp"
#include "protocol/done_line.hpp"
#include "protocol/err_line.hpp"
#include "protocol/info_line.hpp"
#include "protocol/load_line.hpp"
#include "protocol/pong_line.hpp"
#include "protocol/pressure_line.hpp"
#include "protocol/progress_line.hpp"
#include "protocol/ready_line.hpp"
#include "protocol/resume_line.hpp"
#include "protocol/session_line.hpp"
#include "protocol/token_line.hpp"

namespace strata::protocol {

using Event = std::variant<InfoLine, LoadLine, ReadyLine, ResumeLine, ProgressLine, TokenLine,
                           ConvLine, DoneLine, ErrLine, CacheLine, PressureLine, PongLine,
                           SavedLine, RestoredLine, SessionErrorLine>;

// `line` without LF. A word that is no event's is bad_line: foreign text, or an event of a newer
// engine.
Parsed<Event> parse_event(std::string_view line);
std::string format(const Event& event);

}  // namespace strata::protocol
