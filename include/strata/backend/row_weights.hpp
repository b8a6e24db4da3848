// The weights of a row's values, e^((value - largest) * factor), and their sums: the same bits on
// every device, with every instruction set. Owns the approximation of e^x and the order in which
// weights are added up.
//
//  1. Every operation is rounded by itself: nothing of it may be fused (-ffp-contract=off; a GPU's
//     kernels have to say so operation by operation).
//  2. A row is cut into blocks of kWeightBlock values. A block's sum, in f64: of each of 32 lanes
//     the values lane, lane + 32, ... one after the other, then the lanes in halves; what is behind
//     the row's end counts 0.
//
// The functions are inlined wherever they are used, so that the files of each instruction set have
// their own.
#pragma once

#include <bit>
#include <cstdint>

namespace strata {

inline constexpr std::int64_t kWeightBlock = 256;
inline constexpr std::int64_t kWeightLanes = 32;

[[nodiscard]] constexpr std::int64_t weight_blocks(std::int64_t values) {
    return (values + kWeightBlock - 1) / kWeightBlock;
}

// e^x for x <= 0, within 3e-7 of it; 0 where that is no normal number, and of NaN. x = n ln 2 + r,
// |r| <= ln 2 / 2, the Taylor polynomial of degree 7 for e^r, times 2^n. Without a choice between
// floats, which the compiler would make a branch of: so it can put many into one vector.
[[nodiscard, gnu::always_inline]] inline float exponential_below(float x) {
    constexpr float kRounder = 12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer
    constexpr std::int32_t kSizeMax = std::bit_cast<std::int32_t>(87.3F);
    const std::int32_t size = std::bit_cast<std::int32_t>(x) & 0x7FFFFFFF;
    const std::int32_t kept = (size - kSizeMax) >> 31;  // all bits, or none
    const float bounded = -std::bit_cast<float>(size < kSizeMax ? size : kSizeMax);
    const float rounded = bounded * 1.44269504F + kRounder;
    const float n = rounded - kRounder;
    const float r = bounded - n * 0.693359375F + n * 2.12194440e-4F;  // ln 2 in two parts
    float p = 1.0F / 5040.0F;
    p = p * r + 1.0F / 720.0F;
    p = p * r + 1.0F / 120.0F;
    p = p * r + 1.0F / 24.0F;
    p = p * r + 1.0F / 6.0F;
    p = p * r + 0.5F;
    p = p * r + 1.0F;
    p = p * r + 1.0F;
    const std::uint32_t power = std::bit_cast<std::uint32_t>(rounded) << 23;
    const std::uint32_t result = std::bit_cast<std::uint32_t>(p) + power;
    return std::bit_cast<float>(result & static_cast<std::uint32_t>(kept));
}

[[nodiscard, gnu::always_inline]] inline float weight_of(float value, float largest, float factor) {
    return exponential_below((value - largest) * factor);
}

// Of one block: 1 to kWeightBlock values, none of them above `largest`.
[[nodiscard, gnu::always_inline]] inline double block_weight(const float* values,
                                                             std::int64_t count, float largest,
                                                             float factor) {
    float weights[kWeightBlock];
    if (count == kWeightBlock) {
        for (std::int64_t i = 0; i < kWeightBlock; ++i) {
            weights[i] = weight_of(values[i], largest, factor);
        }
    } else {
        for (std::int64_t i = 0; i < count; ++i) {
            weights[i] = weight_of(values[i], largest, factor);
        }
        for (std::int64_t i = count; i < kWeightBlock; ++i) weights[i] = 0;
    }
    double sums[kWeightLanes] = {};
    for (std::int64_t i = 0; i < kWeightBlock; i += kWeightLanes) {
        for (std::int64_t lane = 0; lane < kWeightLanes; ++lane) {
            sums[lane] += static_cast<double>(weights[i + lane]);
        }
    }
    for (std::int64_t width = kWeightLanes / 2; width > 0; width /= 2) {
        for (std::int64_t lane = 0; lane < width; ++lane) sums[lane] += sums[lane + width];
    }
    return sums[0];
}

}  // namespace strata
