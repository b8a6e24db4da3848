// A row of logits made small enough to be looked at by the host: its largest values and the weights
// of its blocks (Ops::shortlist), and what is done to a row before (Ops::penalise). Layouts that a
// host and a device share, in memory visible to both.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "strata/core/types.hpp"

namespace strata {

struct alignas(8) Candidate {  // written at once
    float logit = 0;
    TokenId token = 0;
};

// What is wanted of a row.
struct ShortlistRule {
    std::int32_t count = 0;  // about so many of the largest; 0 = none
    bool weighs = false;     // the weight of each block (row_weights.hpp), with this factor
    float factor = 1.0F;
};

// Invariants, once `verdict` says `sound`:
//  1. Every value that is at least `least` and above -infinity is among the candidates, once and
//     in no particular order; nothing else is. `least` = -infinity: these are all above -infinity.
//  2. A row in which too many values are close to each other to be told apart by a device may have
//     fewer candidates than asked for, or none (`least` = +infinity): who needs them has to look at
//     the row itself. A row of up to kCandidatesMax values always has all of them.
struct Shortlist {
    static constexpr std::int32_t kCandidatesMax = 1024;
    // With more than that asked for, a row of many equals may not fit.
    static constexpr std::int32_t kCountMax = kCandidatesMax / 2;

    enum Verdict : std::int32_t {
        unset,   // by the host, before
        sound,   // the rest is as above
        faulty,  // a value is NaN or +infinity, or none is above -infinity; the rest means nothing
    };

    std::int32_t verdict = unset;  // written last
    std::int32_t count = 0;
    float largest = 0;
    float least = 0;
    Candidate candidates[kCandidatesMax];
};

struct TokenCount {
    TokenId token = 0;
    std::int32_t count = 0;  // 1 or more
};

// Different tokens, and how often each of them occurs.
struct TokenCounts {
    static constexpr std::int32_t kMost = 4096;

    std::int32_t size = 0;
    alignas(sizeof(TokenCount)) TokenCount each[kMost];
};

// How much less a token is wanted that is there already.
struct Penalties {
    double repeat = 1;     // > 0; 1 = off
    double frequency = 0;  // for each time; 0 = off
    double presence = 0;   // 0 = off
};

// The logit of a token that occurs `count` > 0 times: divided (if > 0) or multiplied (if <= 0) by
// `repeat`, then lowered by count * frequency + presence; in f64, each operation rounded by itself,
// then held within the finite numbers. What is not finite stays as it is.
[[nodiscard]] inline float penalised(float logit, std::int32_t count, const Penalties& by) {
    constexpr double kMost = std::numeric_limits<float>::max();
    constexpr double kWidest = std::numeric_limits<double>::max();
    if (!std::isfinite(logit)) return logit;
    double value = logit;
    value = value > 0 ? value / by.repeat : value * by.repeat;
    // Infinities of both would make a NaN.
    value = std::clamp(value, -kWidest, kWidest);
    value -= std::clamp(count * by.frequency + by.presence, -kWidest, kWidest);
    return static_cast<float>(std::clamp(value, -kMost, kMost));
}

}  // namespace strata
