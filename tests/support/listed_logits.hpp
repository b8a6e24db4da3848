// The shortlist of a row by its definition (strata/backend/shortlist.hpp), everything sorted; and
// as short as a test wants it.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "strata/backend/row_weights.hpp"
#include "strata/backend/shortlist.hpp"

namespace strata::tests {

struct ListedLogits {
    Shortlist list;
    std::vector<double> weights;
};

// A device that has room for `most` candidates.
inline ListedLogits list_logits(const std::vector<float>& logits, const ShortlistRule& rule,
                                std::int32_t most = Shortlist::kCandidatesMax) {
    constexpr float kInfinity = std::numeric_limits<float>::infinity();
    ListedLogits out;
    out.list.verdict = Shortlist::faulty;
    std::vector<Candidate> all;
    for (std::size_t i = 0; i < logits.size(); ++i) {
        if (std::isnan(logits[i]) || logits[i] == kInfinity) return out;
        if (logits[i] > -kInfinity) all.push_back({logits[i], static_cast<TokenId>(i)});
    }
    if (all.empty()) return out;
    out.list.verdict = Shortlist::sound;
    std::sort(all.begin(), all.end(),
              [](const Candidate& a, const Candidate& b) { return a.logit > b.logit; });
    out.list.largest = all.front().logit;
    // Down to the value of the last one asked for, and its equals.
    std::size_t count = std::min(all.size(), static_cast<std::size_t>(rule.count));
    while (count > 0 && count < all.size() && all[count].logit == all[count - 1].logit) ++count;
    if (count > static_cast<std::size_t>(most)) count = 0;
    out.list.count = static_cast<std::int32_t>(count);
    out.list.least = count > 0 ? all[count - 1].logit : kInfinity;
    if (count > 0 && count == all.size()) out.list.least = -kInfinity;
    all.resize(count);
    std::shuffle(all.begin(), all.end(), std::mt19937(17));
    std::copy(all.begin(), all.end(), out.list.candidates);
    if (!rule.weighs) return out;
    const auto size = static_cast<std::int64_t>(logits.size());
    for (std::int64_t at = 0; at < size; at += kWeightBlock) {
        out.weights.push_back(block_weight(logits.data() + at, std::min(kWeightBlock, size - at),
                                           out.list.largest, rule.factor));
    }
    return out;
}

}  // namespace strata::tests
