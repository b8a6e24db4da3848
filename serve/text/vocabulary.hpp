// The vocabulary of a byte-level BPE model as tables: its tokens, and which pairs merge into what.
// Read once from a GGUF header, then immutable. It does not cut text.
//
// Invariants:
//  1. Only tokens of kind normal are results of merges, of byte_id() and of whole_word(): plain
//     text never becomes a control or user-defined token.
//  2. Every byte has a token.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "protocol/gguf/gguf.hpp"
#include "serve/text/token_table.hpp"
#include "strata/core/result.hpp"

namespace strata::serve {

struct Merge {
    std::uint32_t rank = 0;  // lower merges first
    TokenId result = -1;     // -1: the pair does not merge
};

class Vocabulary {
  public:
    // Refuses by name: tokens that TokenTable refuses, a byte without a token, a merge of pieces
    // that are no tokens.
    static Result<Vocabulary> read(const gguf::Header& header);

    const TokenTable& tokens() const { return tokens_; }
    TokenId byte_id(std::uint8_t byte) const { return byte_ids_[byte]; }
    Merge merge(TokenId left, TokenId right) const;
    // The normal token that is exactly this text; -1 when there is none.
    TokenId whole_word(std::string_view word) const { return tokens_.word(word); }

  private:
    struct PairEntry {
        std::uint64_t pair = kNoPair;
        Merge merge;
    };
    static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};

    explicit Vocabulary(TokenTable tokens) : tokens_(std::move(tokens)) {}
    Status<> find_bytes();
    Status<> read_merges(const gguf::Header& header);
    void insert_pair(TokenId left, TokenId right, Merge merge);

    TokenTable tokens_;
    std::array<TokenId, 256> byte_ids_{};
    std::vector<PairEntry> pairs_;  // open addressing, a power of two long
};

}  // namespace strata::serve
