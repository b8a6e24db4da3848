// A template's source as tokens. White space control (minus and plus signs, trim_blocks,
// lstrip_blocks), comments and raw blocks end here: what follows sees data and tags only.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "serve/text/jinja/text.hpp"
#include "strata/core/result.hpp"

namespace strata::serve::jinja {

enum class TokenType : std::uint8_t {
    text,  // between the tags
    variable_begin,
    variable_end,
    block_begin,
    block_end,
    name,
    string,  // value: without quotes, escapes resolved
    integer,
    real,
    symbol,  // an operator or bracket
    end,
};

struct Token {
    TokenType type = TokenType::end;
    Position at;
    std::string value;
};

// The largest released templates have about 60 KB.
inline constexpr std::size_t kSourceBytesMax = std::size_t{1} << 20U;

// The last token is `end`. A refusal begins with "line L, column C".
Result<std::vector<Token>> tokenize(std::string_view source);

// "line L, column C: message"
Failure<Refusal> refuse_at(Position at, const std::string& message);

}  // namespace strata::serve::jinja
