// Float kernels, part 5: what a row's shortlist is made of. Included only by float_kernels_*.cpp.
#pragma once

#include "engine/backend/cpu/float_kernels.hpp"
#include "engine/backend/cpu/lanes.hpp"
#include "strata/backend/row_weights.hpp"

namespace {

// A group has the same lane of `size` vectors: so maxima need no look at single lanes.
inline std::int64_t group_maxima(const float* x, std::int64_t n, std::int64_t size, float* maxima) {
    const Lanes lowest = all(-__builtin_inff());
    const Lanes most = all(3.402823466e+38F);  // the largest finite number
    IntLanes sound = IntLanes{} - 1;
    std::int64_t groups = 0;
    for (std::int64_t begin = 0; begin < n; begin += size * kLanes) {
        const std::int64_t end = begin + size * kLanes < n ? begin + size * kLanes : n;
        Lanes best = lowest;
        std::int64_t i = begin;
        for (; i + kLanes <= end; i += kLanes) {
            const Lanes value = load(x + i);
            sound &= value <= most;
            best = larger(value, best);
        }
        if (i < end) {
            Lanes value = lowest;
            for (std::int64_t lane = 0; i + lane < end; ++lane) value[lane] = x[i + lane];
            sound &= value <= most;
            best = larger(value, best);
        }
        store(maxima + groups, best);
        groups += kLanes;
    }
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
        if (sound[lane] == 0) return -1;
    }
    return groups;
}

// Most stretches of a row hold none, which one look tells.
inline std::int64_t gather_from(const float* x, std::int64_t n, float floor, std::int64_t most,
                                strata::Candidate* out) {
    constexpr std::int64_t kStretch = 64;
    std::int64_t count = 0;
    for (std::int64_t begin = 0; begin < n; begin += kStretch) {
        const std::int64_t end = begin + kStretch < n ? begin + kStretch : n;
        if (end - begin == kStretch) {
            IntLanes any{};
            for (std::int64_t i = begin; i < end; i += kLanes) any |= load(x + i) >= all(floor);
            std::int32_t found = 0;
            for (std::int64_t lane = 0; lane < kLanes; ++lane) found |= any[lane];
            if (found == 0) continue;
        }
        for (std::int64_t i = begin; i < end; ++i) {
            if (!(x[i] >= floor)) continue;
            if (count == most) return -1;
            out[count++] = {x[i], static_cast<strata::TokenId>(i)};
        }
    }
    return count;
}

inline double weigh_block(const float* x, std::int64_t n, float largest, float factor) {
    return strata::block_weight(x, n, largest, factor);
}

}  // namespace
