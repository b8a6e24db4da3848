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
// Random numbers are counter-based (Philox4x32-10, Salmon et al., "Parallel random numbers: as easy
// as 1, 2, 3", SC 2011): number n of a seed needs none of those before it, so a draw depends on the
// seed and the token's position alone.
#pragma once

#include <cstdint>
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

class Sampler {
  public:
    // `newest` are the ids before the token to choose (prompt and answer); `counter` is its
    // position. Empty as greedy_token().
    [[nodiscard]] std::optional<TokenId> choose(std::span<const float> logits,
                                                std::span<const TokenId> newest,
                                                const SamplingSettings& settings,
                                                std::uint64_t counter);

  private:
    std::span<const float> penalised(std::span<const float> logits, std::span<const TokenId> newest,
                                     const SamplingSettings& settings);
    // Fills candidates_ with what steps 3-5 leave; false when they leave everything.
    bool filter(std::span<const float> logits, float largest, const SamplingSettings& settings);
    TokenId draw_of_all(std::span<const float> logits, float largest, float factor, double chance);
    void gather_top_p(std::span<const float> logits, float largest, double top_p);

    // Scratch, kept between calls so that a token costs no allocation.
    std::vector<float> penalised_;
    std::vector<std::int32_t> counts_;
    std::vector<Candidate> candidates_;
    std::vector<Candidate> band_;
    std::vector<double> weights_;
};

}  // namespace strata
