// T: one written token. `T token id=N [lp=logprob] [top=id:lp,...]`
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/err_line.hpp"

namespace strata::protocol {

inline constexpr std::string_view kTokenVerb = "T";

// A T line is the one that comes thousands of times: a reader may keep a small buffer for it.
inline constexpr std::size_t kTokenLineBytesMax = 4096;
// 100 entries of at most 10 + 1 + 15 + 1 characters fit a T line with room for the rest.
inline constexpr std::int32_t kTopLogprobsMax = 100;

struct TopLogprob {
    std::int32_t token = 0;
    float lp = 0;
    friend bool operator==(const TopLogprob&, const TopLogprob&) = default;
};

struct TokenLine {
    std::int32_t token = 0;
    std::uint64_t id = 0;
    std::optional<float> lp;      // natural log of the token's probability, before sampling; finite
    std::vector<TopLogprob> top;  // most probable first; at most kTopLogprobsMax
    friend bool operator==(const TokenLine&, const TokenLine&) = default;
};

std::string format(const TokenLine& line);
Parsed<TokenLine> parse_token_line(std::string_view line);

}  // namespace strata::protocol
