// The best of many (score, index) pairs: the largest score, the lowest index of equals.
//
// A score is compared as an unsigned number of the same order; 0 is below every score.
#pragma once

#include "engine/backend/cuda/launch/launch.cuh"

namespace strata::cuda {

__device__ __forceinline__ unsigned order_of(float score) {
    const unsigned bits = __float_as_uint(score + 0.0F);  // -0 becomes +0, which equals it
    const unsigned ordered = (bits & 0x80000000U) != 0 ? ~bits : bits | 0x80000000U;
    return max(ordered, 1U);
}
__device__ __forceinline__ float score_of(unsigned ordered) {
    return __uint_as_float((ordered & 0x80000000U) != 0 ? ordered & 0x7fffffffU : ~ordered);
}

// order_of() the infinities. A value of a row that is NaN or +infinity counts as the largest of
// all, so that it is found wherever it is.
constexpr unsigned kOrderOfLowest = 0x007fffffU;
constexpr unsigned kOrderOfInfinity = 0xff800000U;
constexpr unsigned kOrderOfFaulty = ~0U;
constexpr float kFiniteMax = 3.402823466e+38F;

__device__ __forceinline__ unsigned order_or_fault(float value) {
    return value <= kFiniteMax ? order_of(value) : kOrderOfFaulty;
}
// Of the largest order in a row: that no value is at fault, and one is finite.
__device__ __forceinline__ bool is_sound(unsigned largest) {
    return largest > kOrderOfLowest && largest < kOrderOfInfinity;
}

__device__ __forceinline__ unsigned sum_of_warp(unsigned value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_add_sync(kAllLanes, value);
#else
    for (int step = kWarp / 2; step > 0; step /= 2) {
        value += __shfl_xor_sync(kAllLanes, value, step);
    }
    return value;
#endif
}
__device__ __forceinline__ unsigned largest_of_warp(unsigned value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_max_sync(kAllLanes, value);
#else
    for (int step = kWarp / 2; step > 0; step /= 2) {
        value = max(value, __shfl_xor_sync(kAllLanes, value, step));
    }
    return value;
#endif
}
__device__ __forceinline__ unsigned smallest_of_warp(unsigned value) {
#if __CUDA_ARCH__ >= 800
    return __reduce_min_sync(kAllLanes, value);
#else
    for (int step = kWarp / 2; step > 0; step /= 2) {
        value = min(value, __shfl_xor_sync(kAllLanes, value, step));
    }
    return value;
#endif
}

// Over the block, in every thread: the largest order, and the lowest index that has it.
template <int kThreads>
__device__ __forceinline__ void best_of_block(unsigned& ordered, unsigned& index) {
    __shared__ unsigned warp_ordered[kThreads / kWarp];
    __shared__ unsigned warp_index[kThreads / kWarp];
    const int lane = threadIdx.x % kWarp;
    unsigned largest = largest_of_warp(ordered);
    unsigned lowest = smallest_of_warp(ordered == largest ? index : ~0U);
    __syncthreads();
    if (lane == 0) {
        warp_ordered[threadIdx.x / kWarp] = largest;
        warp_index[threadIdx.x / kWarp] = lowest;
    }
    __syncthreads();
    const bool has = lane < kThreads / kWarp;
    ordered = has ? warp_ordered[lane] : 0;
    index = has ? warp_index[lane] : ~0U;
    largest = largest_of_warp(ordered);
    index = smallest_of_warp(ordered == largest ? index : ~0U);
    ordered = largest;
}

}  // namespace strata::cuda
