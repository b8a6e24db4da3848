// What happened to conversations, as lines: CONV, CACHE and PRESSURE for the server, and one line
// on stderr for people. Translates values; decides nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "protocol/cache_line.hpp"
#include "protocol/conv_line.hpp"
#include "protocol/done_line.hpp"
#include "protocol/pressure_line.hpp"
#include "strata/core/conversation_event.hpp"
#include "strata/core/conversation_pressure.hpp"

namespace strata {

protocol::ParkSkip park_skip_of(ParkSkip skip);

// What is held, for any of the lines.
protocol::HeldFigures held_figures(std::int64_t parked, std::uint64_t held_bytes,
                                   std::uint64_t retained_bytes);

// `id`: the request in whose course it happened; absent between requests.
protocol::ConvLine conv_line(const ConversationEvent& event, std::optional<std::uint64_t> id);

// One row of CACHE list. `now_ms` is on the clock of ParkedEntry::active_ms.
protocol::CacheLine cache_row_line(const ParkedEntry& entry, std::uint64_t unique_bytes,
                                   std::int64_t now_ms);

protocol::PressureLine pressure_line(const PressureReport& report, double ms);

// The line on stderr, without its end; none of a release (the pressure's own line counts those) and
// of what a skip's line has said.
std::optional<std::string> event_text(const ConversationEvent& event);

}  // namespace strata
