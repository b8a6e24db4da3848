// A binary search that narrows byte by byte; its depth is bounded by kSpecialBytesMax.
#include "serve/text/special_tokens.hpp"

#include <algorithm>
#include <cstdint>

namespace strata::serve {

SpecialTokens::SpecialTokens(const TokenTable& tokens) {
    for (const TokenId id : tokens.specials()) entries_.push_back({tokens.bytes(id), id});
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const Entry& a, const Entry& b) { return a.text < b.text; });
    for (const Entry& entry : entries_) firsts_.set(static_cast<std::uint8_t>(entry.text[0]));
}

TokenId SpecialTokens::find(std::string_view text) const {
    const auto at = std::lower_bound(entries_.begin(), entries_.end(), text,
                                     [](const Entry& e, std::string_view t) { return e.text < t; });
    return at != entries_.end() && at->text == text ? at->id : -1;
}

void SpecialTokens::scan(std::string_view text, std::size_t begin, std::size_t end,
                         std::vector<FoundToken>& out) const {
    for (std::size_t at = begin; at < end;) {
        const FoundToken found = longest(text.substr(0, end), at);
        if (found.id >= 0) out.push_back(found);
        at = found.id >= 0 ? found.end : at + 1;
    }
}

// Narrows the sorted entries byte by byte to those that begin like the text at `at`.
FoundToken SpecialTokens::longest(std::string_view text, std::size_t at) const {
    FoundToken best;
    if (!firsts_.test(static_cast<std::uint8_t>(text[at]))) return best;
    auto low = entries_.begin();
    auto high = entries_.end();
    for (std::size_t depth = 0; low != high && at + depth < text.size(); ++depth) {
        const auto byte = static_cast<std::uint8_t>(text[at + depth]);
        // An entry that ends here sorts before every longer one.
        low = std::partition_point(low, high, [&](const Entry& e) {
            return e.text.size() <= depth || static_cast<std::uint8_t>(e.text[depth]) < byte;
        });
        high = std::partition_point(low, high, [&](const Entry& e) {
            return static_cast<std::uint8_t>(e.text[depth]) == byte;
        });
        if (low != high && low->text.size() == depth + 1) best = {at, at + depth + 1, low->id};
    }
    return best;
}

}  // namespace strata::serve
