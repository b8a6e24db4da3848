// PP: how far the prompt has been read; after every prompt chunk, and at least every 5 s while a
// request parks, restores or reads. `PP position prompt_tokens ms tokens_per_s id=N`
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/err_line.hpp"

namespace strata::protocol {

inline constexpr std::string_view kProgressVerb = "PP";

struct ProgressLine {
    std::int64_t position = 0;  // prompt tokens that are in the state now, the reused ones included
    std::int64_t prompt_tokens = 0;
    double ms = 0;            // since the request began; one decimal on the wire
    double tokens_per_s = 0;  // of the reading so far; one decimal on the wire
    std::uint64_t id = 0;
    friend bool operator==(const ProgressLine&, const ProgressLine&) = default;
};

std::string format(const ProgressLine& line);
Parsed<ProgressLine> parse_progress_line(std::string_view line);

}  // namespace strata::protocol
