// The tokenizer part of "llama" (sentencepiece BPE) vocabularies: characters merge into the pieces
// of the highest score, what is no piece becomes bytes. Knows no control tokens and no rules for
// the ends of a text. A space of the text is the U+2581 of the pieces; both are ' ' here.
//
// Merging: of all neighbours whose joined text is a piece, those of the highest score merge first,
// of equal ones the leftmost, until none is left. A piece of kind unused takes part and is undone
// at the end.
//
// Invariants:
//  1. Two characters that stand side by side in no piece never end up in one: the text is cut there
//     before merging, and the result is that of the whole text.
//  2. Every byte has a token.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "protocol/gguf/gguf.hpp"
#include "serve/text/token_table.hpp"
#include "strata/core/result.hpp"

namespace strata::serve {

class SpmVocabulary {
  public:
    // Refuses by name: tokens that TokenTable refuses, scores that are missing, of another length
    // or no numbers, a byte without a token.
    static Result<SpmVocabulary> read(const gguf::Header& header);

    const TokenTable& tokens() const { return tokens_; }
    TokenId byte_id(std::uint8_t byte) const { return byte_ids_[byte]; }
    float score(TokenId id) const { return scores_[static_cast<std::size_t>(id)]; }
    // Whether any piece has these characters side by side.
    bool may_join(char32_t left, char32_t right) const {
        return joins_.contains(join_key(left, right));
    }

  private:
    static std::uint64_t join_key(char32_t left, char32_t right) {
        return (static_cast<std::uint64_t>(left) << 32U) | right;
    }

    explicit SpmVocabulary(TokenTable tokens) : tokens_(std::move(tokens)) {}
    Status<> read_scores(const gguf::Header& header);
    Status<> find_bytes();
    void find_joins();

    TokenTable tokens_;
    std::vector<float> scores_;
    std::array<TokenId, 256> byte_ids_{};
    std::unordered_set<std::uint64_t> joins_;
};

// Keeps its buffers between texts; one per call of a tokenizer, not shared between threads.
class SpmMerger {
  public:
    explicit SpmMerger(const SpmVocabulary& vocabulary) : vocabulary_(vocabulary) {}
    // Appends the ids of a text in which U+2581 is written as a space. O(n log n) in the length of
    // its longest part between two cuts, which is bounded like a word of BPE (kWordBytesMax).
    void append(std::string_view text, std::vector<TokenId>& out);

  private:
    struct Piece {
        std::uint32_t begin;
        std::uint32_t bytes;    // 0: merged into the piece before it
        std::int32_t previous;  // index of the neighbour, -1 at an end
        std::int32_t next;
    };
    struct Candidate {
        float score;
        std::int32_t left;
        std::uint32_t bytes;  // of both pieces when it was proposed
        // std's heap keeps the greatest in front: the highest score, then the leftmost.
        friend bool operator<(const Candidate& a, const Candidate& b) {
            return a.score < b.score || (a.score == b.score && a.left > b.left);
        }
    };

    std::size_t part_end(std::string_view text) const;
    void append_part(std::string_view part, std::vector<TokenId>& out);
    void propose(std::string_view part, std::int32_t left);
    void merge_all(std::string_view part);
    void append_piece(std::string_view piece, std::vector<TokenId>& out) const;

    const SpmVocabulary& vocabulary_;
    std::vector<Piece> pieces_;
    std::vector<Candidate> heap_;
    std::unordered_map<std::string_view, std::size_t> undo_;  // unused piece -> bytes of its left
};

}  // namespace strata::serve
