// How a token is chosen from logits: the settings of one request. What they do, and in which order,
// is engine/model/sampler.hpp. Ranges are checked where the line is parsed; nothing is clamped
// here.
#pragma once

#include <cstdint>
#include <vector>

#include "strata/core/types.hpp"

namespace strata {

struct SamplingSettings {
    double temperature = 0;            // 0 = greedy
    double top_p = 1;                  // (0, 1]; 1 = off
    std::int64_t top_k = 0;            // 0 = off
    double min_p = 0;                  // [0, 1]; 0 = off
    double repeat_penalty = 1;         // > 0; 1 = off
    double frequency_penalty = 0;      // 0 = off
    double presence_penalty = 0;       // 0 = off
    std::int64_t penalty_last_n = 64;  // newest tokens (prompt included) that the penalties look at
    std::uint64_t seed = 0;
};

struct TokenLogprob {
    TokenId token = 0;
    float logprob = 0;  // natural logarithm, of the distribution before penalties and sampling
};

struct TokenReport {
    float logprob = 0;              // of the chosen token
    std::vector<TokenLogprob> top;  // most probable first; equals in order of their ids
};

}  // namespace strata
