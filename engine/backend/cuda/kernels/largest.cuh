// Where the largest value of a row is. A block looks through its part of the row; the last block to
// arrive looks through what the blocks have found.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/kernels/arrival.cuh"
#include "engine/backend/cuda/kernels/order.cuh"
#include "engine/backend/cuda/launch/largest.hpp"
#include "engine/backend/cuda/launch/launch.cuh"

namespace strata::cuda {

constexpr int kLargestThreads = 256;
constexpr int kLargestLoads = 2;  // of 16 bytes, that a thread has on their way at once
constexpr int kLargestBlockQuads = kLargestThreads * kLargestLoads;
static_assert(kLargestBlocksMax <= kLargestThreads);  // a thread for what each block has found

struct BestSeen {
    unsigned ordered = 0;
    unsigned index = ~0U;

    // Of one thread: indices come in rising order.
    __device__ __forceinline__ void look(float value, unsigned at) {
        const unsigned order = order_or_fault(value);
        if (order <= ordered) return;
        ordered = order;
        index = at;
    }
};

// `quads` groups of four values lie on 16-byte boundaries; what is behind them is read one by one.
__global__ void __launch_bounds__(kLargestThreads)
    find_largest_kernel(const float* x, std::int64_t count, std::int64_t quads,
                        LargestScratch scratch, std::int32_t* index) {
    let_next_start();
    wait_for_previous();
    const auto* four = reinterpret_cast<const float4*>(x);
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kLargestBlockQuads;
    BestSeen best;
    for (std::int64_t base = static_cast<std::int64_t>(blockIdx.x) * kLargestBlockQuads;
         base < quads; base += stride) {
        float4 values[kLargestLoads];
#pragma unroll
        for (int i = 0; i < kLargestLoads; ++i) {
            const std::int64_t quad = base + i * kLargestThreads + threadIdx.x;
            if (quad < quads) values[i] = four[quad];
        }
#pragma unroll
        for (int i = 0; i < kLargestLoads; ++i) {
            const std::int64_t quad = base + i * kLargestThreads + threadIdx.x;
            if (quad >= quads) continue;
            const auto at = static_cast<unsigned>(quad * 4);
            best.look(values[i].x, at);
            best.look(values[i].y, at + 1);
            best.look(values[i].z, at + 2);
            best.look(values[i].w, at + 3);
        }
    }
    for (std::int64_t i =
             quads * 4 + static_cast<std::int64_t>(blockIdx.x) * kLargestThreads + threadIdx.x;
         i < count; i += static_cast<std::int64_t>(gridDim.x) * kLargestThreads) {
        best.look(x[i], static_cast<unsigned>(i));
    }
    best_of_block<kLargestThreads>(best.ordered, best.index);
    if (threadIdx.x == 0) scratch.found[blockIdx.x] = make_uint2(best.ordered, best.index);
    if (!last_to_arrive(scratch.counter, static_cast<int>(gridDim.x))) return;
    const bool has = threadIdx.x < gridDim.x;
    const uint2 found = has ? __ldcg(scratch.found + threadIdx.x) : make_uint2(0, ~0U);
    best = {found.x, found.y};
    best_of_block<kLargestThreads>(best.ordered, best.index);
    if (threadIdx.x != 0) return;
    *index = is_sound(best.ordered) ? static_cast<std::int32_t>(best.index) : -1;
}

}  // namespace strata::cuda
