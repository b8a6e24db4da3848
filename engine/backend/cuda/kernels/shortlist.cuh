// A row of logits made small: penalties, and the shortlist of strata/backend/shortlist.hpp.
//
// The rank of a value is not looked for among all values: the first kernel finds the maxima of
// groups of 8 or 32 values, and the n-th largest of these is a floor that at least n values reach,
// and few more where large values do not lie together. Every block of the second kernel finds that
// floor for itself, lists what of its part of the row reaches it, and adds up its weights. So
// neither kernel has to know how values are spread, and no block waits for another one.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/cuda/kernels/arrival.cuh"
#include "engine/backend/cuda/kernels/order.cuh"
#include "engine/backend/cuda/launch/launch.cuh"
#include "engine/backend/cuda/launch/shortlist.hpp"

namespace strata::cuda {

constexpr int kPenaltyThreads = 1024;
constexpr int kPenaltyTurns = TokenCounts::kMost / kPenaltyThreads;
static_assert(TokenCounts::kMost % kPenaltyThreads == 0);
// A pair is read at once.
static_assert(sizeof(TokenCount) == sizeof(int2) && offsetof(TokenCount, count) == sizeof(int));
static_assert(offsetof(TokenCounts, each) % alignof(int2) == 0);
constexpr int kShortlistWarps = kShortlistThreads / kWarp;
static_assert(kShortlistWarps == kWarp);           // a lane for what each warp has found
static_assert(kWeightLanes == kWarp);              // a lane for each of a block's partial sums
constexpr int kBlockLoads = kWeightBlock / kWarp;  // values of a lane

__device__ __forceinline__ double held_within(double value, double most) {
    value = value < -most ? -most : value;
    return most < value ? most : value;
}

// penalised(), with the same rounding of every operation.
__device__ __forceinline__ float penalised_value(float logit, int count, const Penalties& by) {
    constexpr double kWidest = 1.7976931348623157e308;
    if (!(fabsf(logit) <= kFiniteMax)) return logit;
    double value = logit;
    value = value > 0 ? __ddiv_rn(value, by.repeat) : __dmul_rn(value, by.repeat);
    const double lowered = __dadd_rn(__dmul_rn(count, by.frequency), by.presence);
    value = __dsub_rn(held_within(value, kWidest), held_within(lowered, kWidest));
    return __double2float_rn(held_within(value, kFiniteMax));
}

// One block: each 32 bytes of the host's memory that are read are a journey of their own, so nobody
// reads more than there is, and how much that is is asked once. The host wrote the tokens before
// the step, and writes the same places for every step: so they are asked for before the wait, past
// every cache.
__global__ void __launch_bounds__(kPenaltyThreads)
    penalise_kernel(float* x, const TokenCounts* counts, Penalties by) {
    let_next_start();
    __shared__ int size;
    if (threadIdx.x == 0) size = __ldcv(&counts->size);
    __syncthreads();
    int2 held[kPenaltyTurns];
#pragma unroll
    for (int i = 0; i < kPenaltyTurns; ++i) {
        const int at = i * kPenaltyThreads + static_cast<int>(threadIdx.x);
        if (at < size) held[i] = __ldcv(reinterpret_cast<const int2*>(counts->each + at));
    }
    wait_for_previous();
#pragma unroll
    for (int i = 0; i < kPenaltyTurns; ++i) {
        const int at = i * kPenaltyThreads + static_cast<int>(threadIdx.x);
        if (at >= size) return;
        x[held[i].x] = penalised_value(x[held[i].x], held[i].y, by);
    }
}

// exponential_below(), with the same rounding of every operation.
__device__ __forceinline__ float exponential_of(float x) {
    constexpr float kRounder = 12582912.0F;
    constexpr float kSizeMax = 87.3F;
    const float size = fabsf(x);
    const float bounded = -(size < kSizeMax ? size : kSizeMax);
    const float rounded = __fadd_rn(__fmul_rn(bounded, 1.44269504F), kRounder);
    const float n = __fsub_rn(rounded, kRounder);
    const float r =
        __fadd_rn(__fsub_rn(bounded, __fmul_rn(n, 0.693359375F)), __fmul_rn(n, 2.12194440e-4F));
    float p = 1.0F / 5040.0F;
    p = __fadd_rn(__fmul_rn(p, r), 1.0F / 720.0F);
    p = __fadd_rn(__fmul_rn(p, r), 1.0F / 120.0F);
    p = __fadd_rn(__fmul_rn(p, r), 1.0F / 24.0F);
    p = __fadd_rn(__fmul_rn(p, r), 1.0F / 6.0F);
    p = __fadd_rn(__fmul_rn(p, r), 0.5F);
    p = __fadd_rn(__fmul_rn(p, r), 1.0F);
    p = __fadd_rn(__fmul_rn(p, r), 1.0F);
    const unsigned power = __float_as_uint(rounded) << 23;
    return size < kSizeMax ? __uint_as_float(__float_as_uint(p) + power) : 0.0F;
}

// A block of weights, lane by lane: values lane, lane + 32 ...; those behind the end are -infinity.
struct BlockValues {
    float values[kBlockLoads];
    int first;  // index of the lane's first one

    __device__ __forceinline__ BlockValues(const float* x, int count, int block) {
        first = block * static_cast<int>(kWeightBlock) + static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
        for (int i = 0; i < kBlockLoads; ++i) {
            const int at = first + i * kWarp;
            values[i] = at < count ? x[at] : __uint_as_float(0xff800000U);
        }
    }
    // block_weight(), in lane 0.
    __device__ __forceinline__ double weight(float largest, float factor) const {
        double sum = 0;
#pragma unroll
        for (int i = 0; i < kBlockLoads; ++i) {
            const float weight = exponential_of(__fmul_rn(__fsub_rn(values[i], largest), factor));
            sum = __dadd_rn(sum, weight);
        }
#pragma unroll
        for (int step = kWarp / 2; step > 0; step /= 2) {
            sum = __dadd_rn(sum, __shfl_xor_sync(kAllLanes, sum, step));
        }
        return sum;
    }
};

// Blocks of weights that a warp looks at: from this one on, one each `stride`.
struct WarpBlocks {
    int begin =
        static_cast<int>(blockIdx.x) * kShortlistWarps + static_cast<int>(threadIdx.x) / kWarp;
    int stride = static_cast<int>(gridDim.x) * kShortlistWarps;
};

// The order of the largest value that each `group` lanes see; that of -infinity, or 0, where there
// is none.
__global__ void __launch_bounds__(kShortlistThreads)
    maxima_kernel(const float* x, int count, int group, unsigned* maxima) {
    let_next_start();
    wait_for_previous();
    const int blocks = static_cast<int>(weight_blocks(count));
    const WarpBlocks of_warp;
    unsigned largest = 0;
    for (int block = of_warp.begin; block < blocks; block += of_warp.stride) {
        const BlockValues row(x, count, block);
#pragma unroll
        for (int i = 0; i < kBlockLoads; ++i) largest = max(largest, order_or_fault(row.values[i]));
    }
    for (int step = 1; step < group; step *= 2) {
        largest = max(largest, __shfl_xor_sync(kAllLanes, largest, step));
    }
    const int thread = static_cast<int>(blockIdx.x) * kShortlistThreads + threadIdx.x;
    if (thread % group == 0) maxima[thread / group] = largest;
}

// All maxima of the row, in the registers of a block.
class HeldMaxima {
  public:
    __device__ __forceinline__ HeldMaxima(const unsigned* maxima, int count)
        : turns_((count + kShortlistThreads - 1) / kShortlistThreads) {
#pragma unroll
        for (int i = 0; i < kMaximaPerThread; ++i) {
            const int at = i * kShortlistThreads + static_cast<int>(threadIdx.x);
            held_[i] = at < count ? maxima[at] : 0;
        }
    }
    __device__ __forceinline__ unsigned largest() {
        unsigned largest = 0;
#pragma unroll
        for (int i = 0; i < kMaximaPerThread; ++i) largest = max(largest, held_[i]);
        return over_block(largest, [](unsigned value) { return largest_of_warp(value); });
    }
    // An order that `rank` maxima reach, and few more if they differ.
    __device__ __forceinline__ unsigned floor_of(unsigned rank) {
        const unsigned enough = rank + rank / 8;
        unsigned floor = 0;
        for (unsigned bit = 1U << 31; bit != 0; bit >>= 1) {
            const unsigned reached = count_from(floor | bit);
            if (reached < rank) continue;
            floor |= bit;
            if (reached <= enough) break;
        }
        return floor;
    }

  private:
    __device__ __forceinline__ unsigned count_from(unsigned floor) {
        unsigned count = 0;
#pragma unroll
        for (int i = 0; i < kMaximaPerThread; ++i) {
            if (i < turns_) count += held_[i] >= floor ? 1 : 0;
        }
        return over_block(count, [](unsigned value) { return sum_of_warp(value); });
    }
    // In every thread. Two places in turn: no warp is more than one call ahead of another.
    template <class OfWarp>
    __device__ __forceinline__ unsigned over_block(unsigned value, const OfWarp& of_warp) {
        __shared__ unsigned found[2][kShortlistWarps];
        place_ ^= 1;
        value = of_warp(value);
        if (threadIdx.x % kWarp == 0) found[place_][threadIdx.x / kWarp] = value;
        __syncthreads();
        return of_warp(found[place_][threadIdx.x % kWarp]);
    }

    unsigned held_[kMaximaPerThread];
    int turns_;
    int place_ = 0;
};

constexpr unsigned kOrderOfLeastFinite = kOrderOfLowest + 1;

// What of a row reaches the `rank`-th of the maxima, and the weights; the last block to arrive says
// what there is. Rank 0: nothing is listed.
__global__ void __launch_bounds__(kShortlistThreads)
    shortlist_kernel(const float* x, int count, int maxima, int rank, ShortlistScratch scratch,
                     ShortlistRule rule, Shortlist* list, double* weights) {
    let_next_start();
    wait_for_previous();
    HeldMaxima held(scratch.maxima, maxima);
    const unsigned largest_order = held.largest();
    if (!is_sound(largest_order)) {
        if (blockIdx.x == 0 && threadIdx.x == 0) list->verdict = Shortlist::faulty;
        return;
    }
    const float largest = score_of(largest_order);
    unsigned floor = rank > 0 ? kOrderOfLeastFinite : kOrderOfInfinity;
    if (rank > 0 && count > Shortlist::kCandidatesMax) {
        floor = max(floor, held.floor_of(static_cast<unsigned>(rank)));
    }
    const float least = score_of(floor);
    unsigned* placed = scratch.counters;
    const int blocks = static_cast<int>(weight_blocks(count));
    const WarpBlocks of_warp;
    for (int block = of_warp.begin; block < blocks; block += of_warp.stride) {
        const BlockValues row(x, count, block);
#pragma unroll
        for (int i = 0; i < kBlockLoads; ++i) {
            if (!(row.values[i] >= least)) continue;
            const unsigned place = atomicAdd(placed, 1U);
            if (place >= Shortlist::kCandidatesMax) continue;
            list->candidates[place] = {row.values[i], row.first + i * kWarp};
        }
        if (!rule.weighs) continue;
        const double weight = row.weight(largest, rule.factor);
        if (threadIdx.x % kWarp == 0) weights[block] = weight;
    }
    __threadfence_system();  // before the host may be told
    if (!last_to_arrive(scratch.counters + 1, static_cast<int>(gridDim.x))) return;
    if (threadIdx.x != 0) return;
    const unsigned found = atomicExch(placed, 0U);
    const bool fits = found <= Shortlist::kCandidatesMax && rank > 0;
    list->count = fits ? static_cast<int>(found) : 0;
    list->largest = largest;
    const float infinity = __uint_as_float(0x7f800000U);
    list->least = !fits ? infinity : floor == kOrderOfLeastFinite ? -infinity : least;
    __threadfence_system();
    *static_cast<volatile std::int32_t*>(&list->verdict) = Shortlist::sound;
}

}  // namespace strata::cuda
