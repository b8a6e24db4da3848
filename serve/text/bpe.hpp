// The merges of byte-level BPE on one word: the pair of lowest rank merges first, of equal ones the
// leftmost, until none is left. Knows no patterns and no control tokens.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "serve/text/vocabulary.hpp"

namespace strata::serve {

// Longer words are cut here before merging: the heap needs about 30 bytes for each byte of a word,
// and a client may send 64 MiB of one letter. No text of people or programs comes near it.
inline constexpr std::size_t kWordBytesMax = std::size_t{256} << 10U;

// Keeps its buffers between words; one per call of a tokenizer, not shared between threads.
class WordMerger {
  public:
    explicit WordMerger(const Vocabulary& vocabulary) : vocabulary_(vocabulary) {}
    // Appends the ids of the word. O(n^2) up to kScanBytesMax bytes, O(n log n) above.
    void append(std::string_view word, std::vector<TokenId>& out);

  private:
    // Below this the quadratic scan over an array beats the heap (measured: equal at about 60
    // bytes).
    static constexpr std::size_t kScanBytesMax = 48;

    struct Piece {
        TokenId id;
        std::int32_t previous;  // index of the neighbour, -1 at an end
        std::int32_t next;
    };
    struct Candidate {
        std::uint64_t order;  // rank, then position of the left piece
        TokenId left;
        TokenId right;
        // std's heap keeps the greatest in front; here that is the lowest order.
        friend bool operator<(const Candidate& a, const Candidate& b) { return a.order > b.order; }
    };

    void append_scanning(std::string_view word, std::vector<TokenId>& out);
    void append_by_heap(std::string_view word, std::vector<TokenId>& out);
    bool propose(std::int32_t left, Candidate& out) const;

    const Vocabulary& vocabulary_;
    std::vector<TokenId> ids_;
    std::vector<Merge> merges_;
    std::vector<Piece> pieces_;
    std::vector<Candidate> heap_;
};

}  // namespace strata::serve
