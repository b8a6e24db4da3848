// f32 numbers as sums of two halves (22 bits), for products on tensor cores.
#pragma once

#include <cstdint>

#include <cuda_fp16.h>

namespace strata::cuda {

__device__ __forceinline__ std::uint32_t bits_of(__half2 halves) {
    return *reinterpret_cast<std::uint32_t*>(&halves);
}

// Two numbers as pairs of halves: their nearest halves, and what those leave.
struct SplitPair {
    std::uint32_t high;
    std::uint32_t low;
};
__device__ __forceinline__ SplitPair split_pair(float one, float other) {
    const __half2 high = __floats2half2_rn(one, other);
    const float2 back = __half22float2(high);
    return {bits_of(high), bits_of(__floats2half2_rn(one - back.x, other - back.y))};
}

}  // namespace strata::cuda
