// The vocabulary of a byte-level BPE model as tables: bytes of each token, its kind, and which
// pairs merge into what. Read once from a GGUF header, then immutable. It does not cut text.
//
// Invariants:
//  1. bytes(id) are raw bytes: the printable stand-ins of byte-level vocabularies are undone for
//  tokens
//     of kind normal; other kinds keep their text.
//  2. Only tokens of kind normal are results of merges, of byte_id() and of whole_word(): plain
//  text
//     never becomes a control or user-defined token.
//  3. Every byte has a token.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "protocol/gguf/gguf.hpp"
#include "serve/text/tokenizer.hpp"
#include "strata/core/result.hpp"

namespace strata::serve {

struct Merge {
    std::uint32_t rank = 0;  // lower merges first
    TokenId result = -1;     // -1: the pair does not merge
};

class Vocabulary {
  public:
    // Refuses by name: a model that is not byte-level BPE, arrays that are missing or of different
    // length, a byte without a token, a merge of pieces that are no tokens.
    static Result<Vocabulary> read(const gguf::Header& header);

    std::size_t size() const { return starts_.size() - 1; }
    // Precondition of both: 0 <= id < size().
    std::string_view bytes(TokenId id) const {
        const auto at = static_cast<std::size_t>(id);
        return {pool_.data() + starts_[at], starts_[at + 1] - starts_[at]};
    }
    TokenKind kind(TokenId id) const { return kinds_[static_cast<std::size_t>(id)]; }

    TokenId byte_id(std::uint8_t byte) const { return byte_ids_[byte]; }
    Merge merge(TokenId left, TokenId right) const;
    // The normal token that is exactly this text; -1 when there is none.
    TokenId whole_word(std::string_view word) const;
    // Control and user-defined tokens by their text, in ascending order of id.
    const std::vector<TokenId>& specials() const { return specials_; }

  private:
    struct PairEntry {
        std::uint64_t pair = kNoPair;
        Merge merge;
    };
    static constexpr std::uint64_t kNoPair = ~std::uint64_t{0};

    Vocabulary() = default;
    Status<> read_tokens(const gguf::Header& header);
    Status<> read_merges(const gguf::Header& header);
    void insert_pair(TokenId left, TokenId right, Merge merge);

    std::vector<char> pool_;             // bytes of all tokens, one after the other
    std::vector<std::uint32_t> starts_;  // size() + 1 offsets into pool_
    std::vector<TokenKind> kinds_;
    std::vector<TokenId> specials_;
    std::array<TokenId, 256> byte_ids_{};
    std::unordered_map<std::string_view, TokenId> words_;  // normal tokens; views into pool_
    std::vector<PairEntry> pairs_;                         // open addressing, a power of two long
};

}  // namespace strata::serve
