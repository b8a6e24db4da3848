// READY: commands are accepted from here on. `READY max_context word... [batch=N]`. Owns the
// capability words; one that a reader does not know is passed over.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/err_line.hpp"

namespace strata::protocol {

inline constexpr std::string_view kReadyVerb = "READY";

// True once the engine really does it: an unfinished command has no word here.
struct Capabilities {
    bool stop = false;        // STOP
    bool id = false;          // id= on commands and events
    bool cache_list = false;  // CACHE (word: cache)
    bool ping = false;        // PING
    bool sessions = false;    // SAVE, RESTORE
    bool grammar = false;     // grammar= of GEN
    friend bool operator==(const Capabilities&, const Capabilities&) = default;
};

struct ReadyLine {
    std::int64_t max_context = 0;  // tokens
    Capabilities can;
    std::optional<std::int64_t> batch;  // lanes
    friend bool operator==(const ReadyLine&, const ReadyLine&) = default;
};

std::string format(const ReadyLine& line);
Parsed<ReadyLine> parse_ready_line(std::string_view line);

}  // namespace strata::protocol
