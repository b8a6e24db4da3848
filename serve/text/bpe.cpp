// Two ways to the same merges; tests compare them on every word length.
#include "serve/text/bpe.hpp"

#include <algorithm>

namespace strata::serve {

void WordMerger::append(std::string_view word, std::vector<TokenId>& out) {
    while (!word.empty()) {
        std::size_t length = std::min(word.size(), kWordBytesMax);
        // Not inside a character: a cut one would become byte tokens.
        while (length < word.size() && length > kWordBytesMax - 4 &&
               (static_cast<std::uint8_t>(word[length]) & 0xC0U) == 0x80U) {
            --length;
        }
        const std::string_view part = word.substr(0, length);
        if (length <= kScanBytesMax) {
            append_scanning(part, out);
        } else {
            append_by_heap(part, out);
        }
        word.remove_prefix(length);
    }
}

void WordMerger::append_scanning(std::string_view word, std::vector<TokenId>& out) {
    ids_.clear();
    merges_.clear();
    for (const char byte : word)
        ids_.push_back(vocabulary_.byte_id(static_cast<std::uint8_t>(byte)));
    for (std::size_t i = 0; i + 1 < ids_.size(); ++i) {
        merges_.push_back(vocabulary_.merge(ids_[i], ids_[i + 1]));
    }
    while (true) {
        std::size_t best = merges_.size();
        for (std::size_t i = 0; i < merges_.size(); ++i) {
            if (merges_[i].result < 0) continue;
            if (best == merges_.size() || merges_[i].rank < merges_[best].rank) best = i;
        }
        if (best == merges_.size()) break;
        ids_[best] = merges_[best].result;
        ids_.erase(ids_.begin() + static_cast<std::ptrdiff_t>(best) + 1);
        merges_.erase(merges_.begin() + static_cast<std::ptrdiff_t>(best));
        if (best > 0) merges_[best - 1] = vocabulary_.merge(ids_[best - 1], ids_[best]);
        if (best < merges_.size()) merges_[best] = vocabulary_.merge(ids_[best], ids_[best + 1]);
    }
    out.insert(out.end(), ids_.begin(), ids_.end());
}

bool WordMerger::propose(std::int32_t left, Candidate& out) const {
    if (left < 0) return false;
    const Piece& piece = pieces_[static_cast<std::size_t>(left)];
    if (piece.next < 0) return false;
    const TokenId right = pieces_[static_cast<std::size_t>(piece.next)].id;
    const Merge merge = vocabulary_.merge(piece.id, right);
    if (merge.result < 0) return false;
    const auto position = static_cast<std::uint32_t>(left);
    out = {(static_cast<std::uint64_t>(merge.rank) << 32U) | position, piece.id, right};
    return true;
}

void WordMerger::append_by_heap(std::string_view word, std::vector<TokenId>& out) {
    pieces_.clear();
    heap_.clear();
    const auto count = static_cast<std::int32_t>(word.size());
    for (std::int32_t i = 0; i < count; ++i) {
        const auto byte = static_cast<std::uint8_t>(word[static_cast<std::size_t>(i)]);
        pieces_.push_back({vocabulary_.byte_id(byte), i - 1, i + 1 < count ? i + 1 : -1});
    }
    Candidate candidate{};
    for (std::int32_t i = 0; i < count; ++i) {
        if (propose(i, candidate)) heap_.push_back(candidate);
    }
    std::make_heap(heap_.begin(), heap_.end());
    while (!heap_.empty()) {
        const Candidate best = heap_.front();
        std::pop_heap(heap_.begin(), heap_.end());
        heap_.pop_back();
        const auto at = static_cast<std::int32_t>(best.order & 0xFFFFFFFFU);
        Piece& left = pieces_[static_cast<std::size_t>(at)];
        if (left.id != best.left || left.next < 0) continue;  // merged since it was proposed
        Piece& right = pieces_[static_cast<std::size_t>(left.next)];
        if (right.id != best.right) continue;
        left.id = vocabulary_.merge(best.left, best.right).result;
        right.id = -1;
        left.next = right.next;
        if (left.next >= 0) pieces_[static_cast<std::size_t>(left.next)].previous = at;
        for (const std::int32_t neighbour : {left.previous, at}) {
            if (!propose(neighbour, candidate)) continue;
            heap_.push_back(candidate);
            std::push_heap(heap_.begin(), heap_.end());
        }
    }
    for (std::int32_t i = 0; i >= 0; i = pieces_[static_cast<std::size_t>(i)].next) {
        out.push_back(pieces_[static_cast<std::size_t>(i)].id);
    }
}

}  // namespace strata::serve
