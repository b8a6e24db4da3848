// Finds the control, user-defined and unknown tokens that are written in a text. It does not decide
// whose text may hold them.
#pragma once

#include <bitset>
#include <cstddef>
#include <string_view>
#include <vector>

#include "serve/text/token_table.hpp"

namespace strata::serve {

struct FoundToken {
    std::size_t begin = 0;
    std::size_t end = 0;
    TokenId id = -1;
};

// Takes the leftmost and of those the longest. The table outlives it.
class SpecialTokens {
  public:
    explicit SpecialTokens(const TokenTable& tokens);
    // -1 when there is none of this text.
    TokenId find(std::string_view text) const;
    // Appends the tokens inside text[begin, end), left to right without overlap.
    void scan(std::string_view text, std::size_t begin, std::size_t end,
              std::vector<FoundToken>& out) const;

  private:
    struct Entry {
        std::string_view text;
        TokenId id;
    };
    FoundToken longest(std::string_view text, std::size_t at) const;

    std::vector<Entry> entries_;  // by text
    std::bitset<256> firsts_;
};

}  // namespace strata::serve
