// Choice of experts, and the order of (token, rank) pairs by expert.
//
// A score is compared by its order (order.cuh); 0 stands for "taken already". Equal scores: the
// lower index wins.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/kernels/order.cuh"
#include "engine/backend/cuda/launch/launch.cuh"
#include "engine/backend/cuda/launch/routing.hpp"
#include "strata/backend/ops.hpp"

namespace strata::cuda {

constexpr float kWeightSumMin =
    6.1035e-5F;                  // the smallest normal f16, as the formats' origin clamps
constexpr int kChoiceWarps = 4;  // tokens of a block
constexpr int kAnyChoiceThreads = 512;

// The experts of a token, one warp per token: up to 32 * kPerLane experts, of which up to 32 are
// chosen. Lane l holds the experts l, l + 32 ... and in the end the choice of rank l.
template <int kPerLane>
__global__ void __launch_bounds__(kWarp* kChoiceWarps)
    choose_kernel(const float* scores, std::int64_t rows, int experts, RouteRule rule,
                  Routes routes) {
    wait_for_previous();
    let_next_start();
    const int lane = threadIdx.x % kWarp;
    const std::int64_t t =
        static_cast<std::int64_t>(blockIdx.x) * kChoiceWarps + threadIdx.x / kWarp;
    if (t >= rows) return;
    const float* row = scores + t * experts;
    unsigned left[kPerLane];
    unsigned best = 0;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
        const int expert = i * kWarp + lane;
        left[i] = expert < experts ? order_of(row[expert]) : 0;
        best = max(best, left[i]);
    }
    const float top = score_of(largest_of_warp(best));
    float total = 0.0F;
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
        if (left[i] != 0) total += expf(score_of(left[i]) - top);
    }
    total = warp_sum(total);

    const int used = static_cast<int>(routes.used);
    int chosen = 0;
    float probability = 0.0F;
    for (int rank = 0; rank < used; ++rank) {
        best = 0;
        int place = 0;
#pragma unroll
        for (int i = kPerLane - 1; i >= 0; --i) {  // downwards: the lower of equals stays
            if (left[i] >= best) {
                best = left[i];
                place = i;
            }
        }
        const unsigned largest = largest_of_warp(best);
        const unsigned mine = static_cast<unsigned>(place * kWarp + lane);
        const unsigned expert = smallest_of_warp(best == largest ? mine : ~0U);
        if (expert == mine) {
#pragma unroll
            for (int i = 0; i < kPerLane; ++i) {
                if (i == place) left[i] = 0;
            }
        }
        if (lane == rank) {
            chosen = static_cast<int>(expert);
            probability = expf(score_of(largest) - top) / total;
        }
    }
    const float sum = warp_sum(probability);
    const float divisor = rule.normalise ? fmaxf(sum, kWeightSumMin) : 1.0F;
    if (lane >= used) return;
    routes.experts[t * used + lane] = chosen;
    routes.weights[t * used + lane] = probability / divisor * rule.scale;
}

// Any number of experts, a block per token: the next choice is the best of those behind the last.
__global__ void __launch_bounds__(kAnyChoiceThreads)
    choose_any_kernel(const float* scores, std::int64_t experts, RouteRule rule, Routes routes) {
    __shared__ float sums[kAnyChoiceThreads / kWarp];
    wait_for_previous();
    let_next_start();
    const std::int64_t t = blockIdx.x;
    const float* row = scores + t * experts;
    const int lane = threadIdx.x % kWarp;
    unsigned last = ~0U;
    unsigned last_index = 0;
    float top = 0.0F;
    float total = 0.0F;
    float chosen = 0.0F;
    for (std::int64_t rank = 0; rank < routes.used; ++rank) {
        unsigned best = 0;
        unsigned index = ~0U;
        for (std::int64_t e = threadIdx.x; e < experts; e += kAnyChoiceThreads) {
            const unsigned ordered = order_of(row[e]);
            const unsigned at = static_cast<unsigned>(e);
            const bool behind = rank == 0 || ordered < last || (ordered == last && at > last_index);
            if (behind && ordered > best) {
                best = ordered;
                index = at;
            }
        }
        best_of_block<kAnyChoiceThreads>(best, index);
        last = best;
        last_index = index;
        if (rank == 0) {
            top = score_of(best);
            for (std::int64_t e = threadIdx.x; e < experts; e += kAnyChoiceThreads) {
                total += expf(row[e] - top);
            }
            total = warp_sum(total);
            if (lane == 0) sums[threadIdx.x / kWarp] = total;
            __syncthreads();
            total = warp_sum(lane < kAnyChoiceThreads / kWarp ? sums[lane] : 0.0F);
        }
        const float probability = expf(score_of(best) - top) / total;
        chosen += probability;
        if (threadIdx.x == 0) {
            routes.experts[t * routes.used + rank] = static_cast<std::int32_t>(index);
            routes.weights[t * routes.used + rank] = probability;
        }
    }
    if (threadIdx.x != 0) return;
    const float divisor = rule.normalise ? fmaxf(chosen, kWeightSumMin) : 1.0F;
    for (std::int64_t rank = 0; rank < routes.used; ++rank) {
        float& weight = routes.weights[t * routes.used + rank];
        weight = weight / divisor * rule.scale;
    }
}

// Grouping: a block owns kOwn experts and reads all pairs twice. First each warp counts in its part
// of the pairs; then it writes its pairs of the block's experts, in order, behind those of earlier
// experts and warps. Nothing passes between blocks.
constexpr int kGroupWarpsMax = 32;

template <int kOwn>
__global__ void __launch_bounds__(kWarp* kGroupWarpsMax)
    group_kernel(const std::int32_t* experts_of, std::int64_t pairs, std::int64_t experts,
                 std::int32_t* offsets, std::int32_t* places) {
    __shared__ int counts[kGroupWarpsMax][kOwn + 1];  // [kOwn]: pairs of experts before the block's
    wait_for_previous();
    let_next_start();
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
    const int warps = static_cast<int>(blockDim.x) / kWarp;
    const int first = static_cast<int>(blockIdx.x) * kOwn;
    const std::int64_t block = static_cast<std::int64_t>(warps) * kWarp;
    const std::int64_t part = (pairs + block - 1) / block * kWarp;
    const std::int64_t begin = min(warp * part, pairs);
    const std::int64_t end = min(begin + part, pairs);

    int count[kOwn + 1] = {};
#pragma unroll 4
    for (std::int64_t i = begin + lane; i < end; i += kWarp) {
        const int own = experts_of[i] - first;
        count[kOwn] += own < 0 ? 1 : 0;
#pragma unroll
        for (int e = 0; e < kOwn; ++e) count[e] += own == e ? 1 : 0;
    }
#pragma unroll
    for (int e = 0; e <= kOwn; ++e) {
        for (int step = kWarp / 2; step > 0; step /= 2) {
            count[e] += __shfl_xor_sync(kAllLanes, count[e], step);
        }
        if (lane == 0) counts[warp][e] = count[e];
    }
    __syncthreads();
    int next = 0;  // of the block's first expert
    for (int w = 0; w < warps; ++w) next += counts[w][kOwn];
    int place[kOwn];
#pragma unroll
    for (int e = 0; e < kOwn; ++e) {
        if (threadIdx.x == 0 && first + e < experts) offsets[first + e] = next;
        place[e] = next;
        for (int w = 0; w < warps; ++w) {
            if (w < warp) place[e] += counts[w][e];
            next += counts[w][e];
        }
    }
    if (threadIdx.x == 0 && blockIdx.x + 1 == gridDim.x) {
        offsets[experts] = static_cast<std::int32_t>(pairs);
    }
    const unsigned before = (1U << lane) - 1;
#pragma unroll 4
    for (std::int64_t base = begin; base < end; base += kWarp) {
        const std::int64_t i = base + lane;
        const int own = i < end ? experts_of[i] - first : -1;
        if (!__any_sync(kAllLanes, own >= 0 && own < kOwn)) continue;
#pragma unroll
        for (int e = 0; e < kOwn; ++e) {
            const unsigned found = __ballot_sync(kAllLanes, own == e);
            if (own == e) places[place[e] + __popc(found & before)] = static_cast<std::int32_t>(i);
            place[e] += __popc(found);
        }
    }
}

// The experts' lists in tiles of `rows` pairs, by one block: a thread cuts the list of an expert.
// Tiles past the last one have no pairs.
constexpr int kCutThreads = 512;

__global__ void __launch_bounds__(kCutThreads)
    cut_tiles_kernel(const std::int32_t* offsets, int experts, int rows, int room,
                     ExpertTile* tiles) {
    __shared__ int sums[kCutThreads / kWarp];  // tiles of each warp's experts
    wait_for_previous();
    let_next_start();
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
    int done = 0;
    for (int base = 0; base < experts; base += kCutThreads) {
        const int expert = base + static_cast<int>(threadIdx.x);
        const int from = expert < experts ? offsets[expert] : 0;
        const int to = expert < experts ? offsets[expert + 1] : 0;
        int behind = (to - from + rows - 1) / rows;  // tiles of the warp up to this expert's last
        const int own = behind;
#pragma unroll
        for (int step = 1; step < kWarp; step *= 2) {
            const int before = __shfl_up_sync(kAllLanes, behind, step);
            if (lane >= step) behind += before;
        }
        if (lane == kWarp - 1) sums[warp] = behind;
        __syncthreads();
        int next = done + behind - own;
        for (int w = 0; w < kCutThreads / kWarp; ++w) {
            if (w < warp) next += sums[w];
            done += sums[w];
        }
        for (int begin = from; begin < to; begin += rows) {
            tiles[next++] = {expert, begin, min(rows, to - begin)};
        }
        __syncthreads();
    }
    for (int t = done + static_cast<int>(threadIdx.x); t < room; t += kCutThreads) tiles[t] = {};
}

}  // namespace strata::cuda
