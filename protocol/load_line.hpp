// LOAD: how much of the weights has been read. `LOAD bytes_done bytes_total`
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/err_line.hpp"

namespace strata::protocol {

inline constexpr std::string_view kLoadVerb = "LOAD";

struct LoadLine {
    std::uint64_t bytes_done = 0;
    std::uint64_t bytes_total = 0;
    friend bool operator==(const LoadLine&, const LoadLine&) = default;
};

std::string format(const LoadLine& line);
Parsed<LoadLine> parse_load_line(std::string_view line);

}  // namespace strata::protocol
