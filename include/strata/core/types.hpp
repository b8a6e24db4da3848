// The words every engine room uses.
#pragma once

#include <cstdint>
#include <vector>

namespace strata {

using TokenId = std::int32_t;   // index into the vocabulary, >= 0
using Position = std::int64_t;  // row of a conversation, counted from 0
using TokenIds = std::vector<TokenId>;

// Positions of one K/V page. A page holds that many rows of every attention layer.
inline constexpr Position kPageTokens = 256;

}  // namespace strata
