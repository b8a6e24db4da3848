// The tokens of a vocabulary: bytes and kind of each, and the way back from bytes to ids. Read once
// from a GGUF header, then immutable. It knows no merges, no scores and does not cut text.
//
// Invariants:
//  1. bytes(id) are raw bytes: the spelling of the model is undone for tokens of kind normal,
//     unused and byte; other kinds keep their text.
//  2. word() finds tokens of kind normal (and, for sentencepiece models, unused) only: plain text
//     never becomes a control or user-defined token.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "protocol/gguf/gguf.hpp"
#include "serve/text/tokenizer.hpp"
#include "strata/core/result.hpp"

namespace strata::serve {

// How the tokens of a file are written.
enum class Spelling : std::uint8_t {
    byte_level,     // each byte as one printable character
    sentencepiece,  // U+2581 for a space, <0x0A> for a byte
};

// Offsets into the pool are 32 bits; the largest released vocabularies hold about 5 MiB of text.
inline constexpr std::size_t kVocabularyBytesMax = std::size_t{256} << 20U;
// A control or user-defined token: the scan for them looks this far from each character. The
// longest of released files have about 60 bytes.
inline constexpr std::size_t kSpecialBytesMax = std::size_t{1} << 10U;

class TokenTable {
  public:
    // Refuses by name: arrays that are missing, of another type or of different length, and texts
    // beyond the limits.
    static Result<TokenTable> read(const gguf::Header& header, Spelling spelling);
    TokenTable(TokenTable&&) = default;  // views into the pool stay, a copy's would not

    std::size_t size() const { return starts_.size() - 1; }
    // Precondition of both: 0 <= id < size().
    std::string_view bytes(TokenId id) const {
        const auto at = static_cast<std::size_t>(id);
        return {pool_.data() + starts_[at], starts_[at + 1] - starts_[at]};
    }
    TokenKind kind(TokenId id) const { return kinds_[static_cast<std::size_t>(id)]; }

    // The token that plain text may become and that is exactly this text; -1 when there is none.
    TokenId word(std::string_view text) const {
        const auto found = words_.find(text);
        return found == words_.end() ? -1 : found->second;
    }
    std::size_t word_bytes_max() const { return word_bytes_max_; }
    // What the template's own text may become: control, user-defined and unknown tokens, in
    // ascending order of id.
    const std::vector<TokenId>& specials() const { return specials_; }

  private:
    TokenTable() = default;
    Status<> append(const std::string& text, Spelling spelling);
    void index(TokenId id, Spelling spelling);

    std::vector<char> pool_;             // bytes of all tokens, one after the other
    std::vector<std::uint32_t> starts_;  // size() + 1 offsets into pool_
    std::vector<TokenKind> kinds_;
    std::vector<TokenId> specials_;
    std::unordered_map<std::string_view, TokenId> words_;  // views into pool_
    std::size_t word_bytes_max_ = 0;
};

// An array of strings of the metadata; refuses a missing one and another type by the key.
Result<const std::vector<std::string>*> strings_of(const gguf::Header& header,
                                                   std::string_view key);
// Appends the text with a space for each U+2581.
void append_with_spaces(std::string_view text, std::string& out);
// The bytes that a text of a byte-level vocabulary stands for; false when a character is not of its
// alphabet.
bool undo_byte_level(std::string_view text, std::string& out);

}  // namespace strata::serve
