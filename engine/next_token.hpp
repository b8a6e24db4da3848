// What a request wants of the row before a token of its answer, and the token that follows from it.
// Owns the place of the logits; how a token is drawn from them is the sampler's.
//
// Invariant: a greedy request that wants nothing else gets the largest logit's id from the device,
// and no logits leave it. Its answer is the one that the logits would have given.
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

class NextToken {
  public:
    explicit NextToken(Runner& runner);

    // What the pass before choose() is asked for.
    LastRow wanted(const GenerateRequest& request);
    // As Sampler::choose(), from what the newest pass gave.
    std::optional<TokenId> choose(const GenerateRequest& request, std::span<const TokenId> newest,
                                  std::uint64_t counter);
    // What is told of the chosen token besides its id, for a request that wants it.
    std::optional<TokenReport> report(const GenerateRequest& request, TokenId chosen) const;
    // Of the newest row, for a request that wants its hash.
    std::span<const float> logits() const { return logits_; }

  private:
    Sampler sampler_;
    std::vector<float> logits_;
    LockedPages locked_;  // they come from the device once per token
    TokenId best_ = -1;
};

}  // namespace strata
