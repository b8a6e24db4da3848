// What a request wants of the row before a token of its answer, and the token that follows from it.
// Owns the place of the logits; how a token is drawn from them is the sampler's.
//
// Invariants
//  1. A request gets the least of these that tells all it needs: the largest logit's id, from the
//     device; the row's shortlist; the logits. Which one follows from its settings alone
//     (row_wish()), so a device is asked for the same things at every step.
//  2. The token is the one that the logits would have given.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "engine/model/sampler.hpp"
#include "strata/backend/device.hpp"
#include "strata/engine.hpp"
#include "strata/model/runner.hpp"

namespace strata {

enum class RowWish : std::uint8_t { best, shortlist, logits };
[[nodiscard]] RowWish row_wish(const GenerateRequest& request, std::int64_t vocabulary);

class NextToken {
  public:
    explicit NextToken(Runner& runner);

    // What the pass before choose() is asked for. It reads `reading`, the ids behind `before`.
    LastRow wanted(const GenerateRequest& request, std::span<const TokenId> before,
                   std::span<const TokenId> reading);
    // As Sampler::choose(), from what the newest pass gave. `newest`: before and reading together.
    std::optional<TokenId> choose(const GenerateRequest& request, std::span<const TokenId> newest,
                                  std::uint64_t counter);
    // What is told of the chosen token besides its id, for a request that wants it.
    std::optional<TokenReport> report(const GenerateRequest& request, TokenId chosen) const;
    // Of the newest row, for a request that wants its hash.
    std::span<const float> logits() const { return logits_; }

  private:
    std::span<const float> fetch(std::size_t first, std::size_t count);

    Runner& runner_;
    Sampler sampler_;
    PenaltyWindow window_;
    std::vector<float> logits_;
    LockedPages locked_;  // they come from the device while a token waits for them
    TokenId best_ = -1;
    RowShortlist shortlist_;
};

}  // namespace strata
