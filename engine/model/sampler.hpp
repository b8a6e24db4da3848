// Which token comes next: pure functions of logits, settings, newest ids and a counter. No clock,
// no state between calls besides scratch memory; the same arguments give the same token.
//
// The chain, in this order (settings at their "off" value skip a step):
//   1. penalties  over the newest penalty_last_n ids (prompt and answer): a token that occurs n > 0
//   times
//                 has its logit divided (if > 0) or multiplied (if <= 0) by repeat_penalty, then
//                 lowered by n * frequency_penalty + presence_penalty.
//   2. temperature 0: the largest logit wins, at equality the lowest id. The chain ends.
//   3. top_k      the k largest logits stay; at equality lower ids first.
//   4. top_p      in falling order, the fewest tokens whose probabilities add up to at least top_p
//   stay.
//   5. min_p      tokens of at least min_p times the largest probability stay.
//   6. temperature divides the logits; one token is drawn from their softmax.
// Probabilities of steps 4 and 5 are those at temperature 1.
//
// The chain looks at a row of logits in two ways: it asks for the values from some floor on, and
// for the weights of blocks (row_weights.hpp). So it runs on the row itself, or on the shortlist
// that a device made of it; what does not follow from the shortlist alone is decided from the row.
// The token is the same either way.
//
// Random numbers are counter-based (Philox4x32-10, Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011): number n of a seed needs none of those before it, so a draw depends on the
// seed and the token's position alone.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "strata/backend/shortlist.hpp"
#include "strata/core/types.hpp"
#include "strata/model/sampling.hpp"

namespace strata {

// The four words of Philox4x32-10 for the 64-bit counter (high words 0) and the 64-bit key.
struct PhiloxWords {
    std::uint32_t word[4];
};
[[nodiscard]] PhiloxWords philox(std::uint64_t counter, std::uint64_t key);
// In [0, 1), 53 bits.
[[nodiscard]] double uniform(std::uint64_t seed, std::uint64_t counter);

// Whether Sampler::choose() gives greedy_token() of the logits as they are, whatever the newest
// ids.
[[nodiscard]] bool is_plainly_greedy(const SamplingSettings& settings);

// The largest logit's id, at equality the lowest. Empty when a logit is NaN or +infinity, or none
// is finite: such logits come from a failed forward pass. Precondition: not empty.
[[nodiscard]] std::optional<TokenId> greedy_token(std::span<const float> logits);

// The chosen token's log-probability and the `top` most probable ones, of the softmax of the logits
// as the model gave them (before penalties). Precondition: finite largest logit.
[[nodiscard]] TokenReport report_token(std::span<const float> logits, TokenId chosen,
                                       std::size_t top);

// The `count` largest, falling; at equality lower ids first. O(V log count), no sort of the
// vocabulary.
void select_largest(std::span<const float> logits, std::size_t count, std::vector<Candidate>& out);

// What of a row of `vocabulary` logits a device should list for a request; empty: the chain needs
// more of the row than a shortlist has.
[[nodiscard]] std::optional<ShortlistRule> shortlist_rule(const SamplingSettings& settings,
                                                          std::int64_t vocabulary);

[[nodiscard]] bool has_penalties(const SamplingSettings& settings);
[[nodiscard]] Penalties penalties_of(const SamplingSettings& settings);

// Counts how often each token occurs among the newest.
class PenaltyWindow {
  public:
    // Every token of the newest `length` ids of `before` and then `after`, once, good until the
    // next call.
    std::span<const TokenCount> count(std::span<const TokenId> before,
                                      std::span<const TokenId> after, std::int64_t length);

  private:
    std::vector<std::int32_t> places_;  // by token: where it is in counts_, plus 1
    std::vector<TokenCount> counts_;
};

// What a device made of a row, by shortlist_rule(), behind its penalties.
struct ShortRow {
    const Shortlist& list;              // its verdict is there
    std::span<const double> weights{};  // of the blocks, if the rule has them
    std::int64_t vocabulary = 0;
    // The row itself, from `first` on; it stays good until the next call. Asked for when the list
    // does not suffice, and for one block when a draw from all tokens has found it.
    std::function<std::span<const float>(std::size_t first, std::size_t count)> values{};
};

class Sampler {
  public:
    // `newest` are the ids before the token to choose (prompt and answer); `counter` is its
    // position. Empty as greedy_token().
    [[nodiscard]] std::optional<TokenId> choose(std::span<const float> logits,
                                                std::span<const TokenId> newest,
                                                const SamplingSettings& settings,
                                                std::uint64_t counter);
    // The same of a row on a device.
    [[nodiscard]] std::optional<TokenId> choose(const ShortRow& row,
                                                const SamplingSettings& settings,
                                                std::uint64_t counter);

  private:
    std::span<const float> penalised(std::span<const float> logits, std::span<const TokenId> newest,
                                     const SamplingSettings& settings);
    std::optional<TokenId> choose_of_row(std::span<const float> logits,
                                         const SamplingSettings& settings, std::uint64_t counter);
    // The steps 2 to 6 where one of them leaves tokens out. Empty: the row does not reach down to
    // all that the chain looks at.
    template <class Row>
    std::optional<TokenId> draw_of_some(const Row& row, const SamplingSettings& settings,
                                        double chance);
    // These fill candidates_ with what the steps 3 to 5 leave; false as above.
    template <class Row>
    bool gather_top_k(const Row& row, std::size_t top_k, double top_p);
    template <class Row>
    bool gather_top_p(const Row& row, double top_p, float floor);
    template <class Row>
    bool gather_min_p(const Row& row, float floor);

    // Scratch, kept between calls so that a token costs no allocation.
    PenaltyWindow window_;
    std::vector<float> penalised_;
    std::vector<Candidate> candidates_;
    std::vector<Candidate> band_;
    std::vector<double> weights_;
    std::vector<double> block_weights_;
};

}  // namespace strata
