// Attention of any head sizes and K/V types, in f32: what the fast kernels do not take. One block
// computes up to eight query heads of one K/V head for one row and a part of the positions
// (attention_splits.cuh), sixty-four positions after the other.
#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_fp16.h>

#include "engine/backend/cuda/kernels/attention_splits.cuh"

namespace strata::cuda {

constexpr int kAnyTile = 64;  // positions; a warp's lanes have two each in the softmax
constexpr int kAnyWarps = 8;
static_assert(kAnyWarps == kTileHeads && kPageTokens % kAnyTile == 0);

// Shared memory: q, results, weights of a tile.
constexpr std::int64_t any_kernel_shared_bytes(std::int64_t key_dim, std::int64_t value_dim) {
    return kTileHeads * (key_dim + value_dim + kAnyTile) * static_cast<std::int64_t>(sizeof(float));
}

#ifdef __CUDACC__

__device__ __forceinline__ float as_float(float value) {
    return value;
}
__device__ __forceinline__ float as_float(__half value) {
    return __half2float(value);
}

__device__ __forceinline__ float as_float(std::int8_t value) {
    return static_cast<float>(value);
}

// The scales of a tile's rows: int8 rows alone have them.
template <class Element>
struct AnyScales {};
template <>
struct AnyScales<std::int8_t> {
    const char* keys;  // of the tile's first position
    const char* values;
    int key_row;  // bytes from a position to the next
    int value_row;

    __device__ float key(int p) const {
        return *reinterpret_cast<const float*>(keys + p * key_row);
    }
    __device__ float value(int p) const {
        return *reinterpret_cast<const float*>(values + p * value_row);
    }
};

struct AnyShared {
    float* q;         // [kTileHeads][key_dim]; heads that are not there: zeros
    float* weighted;  // [kTileHeads][value_dim]
    float* weights;   // [kTileHeads][kAnyTile]
    float* largest;   // [kTileHeads]
    float* sums;
    float* shrink;
};

// Row 0 of a K/V head in a page; `count` positions of a tile are there.
template <class Element>
struct AnyTile {
    const Element* keys;
    const Element* values;
    int key_row;  // elements from a position to the next
    int value_row;
    int count;
    AnyScales<Element> scales;
};

template <class Element>
__device__ AnyTile<Element> any_tile(const AttentionCall& call, const BlockPlace& at, int tile,
                                     int last) {
    constexpr int kTilesPerPage = static_cast<int>(kPageTokens) / kAnyTile;
    const char* page = static_cast<const char*>(call.step.pages[tile / kTilesPerPage]);
    const int row = tile % kTilesPerPage * kAnyTile;
    AnyTile<Element> out;
    out.count = min(kAnyTile, last + 1 - tile * kAnyTile);
    if constexpr (std::is_same_v<Element, std::int8_t>) {
        const char* keys = page + call.k_offset + row * call.coded_k.bytes;
        const char* values = page + call.v_offset + row * call.coded_v.bytes;
        out.key_row = call.coded_k.bytes;
        out.value_row = call.coded_v.bytes;
        out.keys = reinterpret_cast<const Element*>(keys + at.kv_head * call.key_dim);
        out.values = reinterpret_cast<const Element*>(values + at.kv_head * call.value_dim);
        const int scale = at.kv_head * static_cast<int>(sizeof(float));
        out.scales = {keys + call.coded_k.scales + scale, values + call.coded_v.scales + scale,
                      out.key_row, out.value_row};
        return out;
    }
    out.key_row = call.kv_heads * call.key_dim;
    out.value_row = call.kv_heads * call.value_dim;
    out.keys = reinterpret_cast<const Element*>(page + call.k_offset) + row * out.key_row +
               at.kv_head * call.key_dim;
    out.values = reinterpret_cast<const Element*>(page + call.v_offset) + row * out.value_row +
                 at.kv_head * call.value_dim;
    return out;
}

// Each warp scores every kAnyWarps-th position for all heads.
template <class Element>
__device__ void any_scores(const AttentionCall& call, const AnyShared& shared,
                           const AnyTile<Element>& tile) {
    const int lane = threadIdx.x % kWarp;
    for (int p = threadIdx.x / kWarp; p < kAnyTile; p += kAnyWarps) {
        float sums[kTileHeads] = {};
        if (p < tile.count) {
            for (int d = lane; d < call.key_dim; d += kWarp) {
                const float key = as_float(tile.keys[p * tile.key_row + d]);
#pragma unroll
                for (int h = 0; h < kTileHeads; ++h) {
                    sums[h] = fmaf(shared.q[h * call.key_dim + d], key, sums[h]);
                }
            }
        }
        float factor = call.scale * kLog2E;
        if constexpr (std::is_same_v<Element, std::int8_t>) {
            if (p < tile.count) factor *= tile.scales.key(p);
        }
#pragma unroll
        for (int h = 0; h < kTileHeads; ++h) {
            const float score = warp_sum(sums[h]) * factor;
            if (lane == 0) shared.weights[h * kAnyTile + p] = p < tile.count ? score : kHidden;
        }
    }
}

// Warp h turns the scores of head h into weights.
__device__ inline void any_soften(const AnyShared& shared) {
    const int lane = threadIdx.x % kWarp;
    const int head = threadIdx.x / kWarp;
    float* weights = shared.weights + head * kAnyTile;
    const float before = shared.largest[head];
    const float one = weights[lane];
    const float other = weights[lane + kWarp];
    const float top = fmaxf(before, warp_max(fmaxf(one, other)));
    const float one_weight = power_of_two(one - top);
    const float other_weight = power_of_two(other - top);
    weights[lane] = one_weight;
    weights[lane + kWarp] = other_weight;
    const float total = warp_sum(one_weight + other_weight);
    const float shrink = power_of_two(before - top);
    __syncwarp();
    if (lane != 0) return;
    shared.largest[head] = top;
    shared.shrink[head] = shrink;
    shared.sums[head] = fmaf(shared.sums[head], shrink, total);
}

template <class Element>
__device__ void any_add(const AttentionCall& call, const BlockPlace& at, const AnyShared& shared,
                        const AnyTile<Element>& tile) {
    for (int d = static_cast<int>(threadIdx.x); d < call.value_dim; d += kAnyWarps * kWarp) {
        float sums[kTileHeads] = {};
#pragma unroll 8
        for (int p = 0; p < tile.count; ++p) {
            float value = as_float(tile.values[p * tile.value_row + d]);
            if constexpr (std::is_same_v<Element, std::int8_t>) value *= tile.scales.value(p);
#pragma unroll
            for (int h = 0; h < kTileHeads; ++h) {
                sums[h] = fmaf(shared.weights[h * kAnyTile + p], value, sums[h]);
            }
        }
#pragma unroll
        for (int h = 0; h < kTileHeads; ++h) {
            if (h >= at.heads) break;
            float* to = shared.weighted + h * call.value_dim + d;
            *to = fmaf(*to, shared.shrink[h], sums[h]);
        }
    }
}

__device__ inline void any_prepare(const AttentionCall& call, const BlockPlace& at,
                                   const AnyShared& shared) {
    const float* q =
        call.q + (static_cast<std::int64_t>(at.row) * call.heads + at.head) * call.query_stride;
    for (int i = static_cast<int>(threadIdx.x); i < kTileHeads * call.key_dim;
         i += kAnyWarps * kWarp) {
        const int head = i / call.key_dim;
        const int d = i - head * call.key_dim;
        shared.q[i] = head < at.heads ? q[head * call.query_stride + d] : 0.0F;
    }
    for (int i = static_cast<int>(threadIdx.x); i < kTileHeads * call.value_dim;
         i += kAnyWarps * kWarp) {
        shared.weighted[i] = 0.0F;
    }
    if (threadIdx.x < kTileHeads) {
        shared.largest[threadIdx.x] = kHidden;
        shared.sums[threadIdx.x] = 0.0F;
    }
}

// Grid: kv_heads * head_tiles, splits, rows of the launch.
template <class Element>
__global__ void __launch_bounds__(kAnyWarps* kWarp)
    attention_any_kernel(const __grid_constant__ AttentionCall call) {
    extern __shared__ float room[];
    __shared__ float small[3][kTileHeads];
    wait_for_previous();
    let_next_start();
    const BlockPlace at = block_place(call);
    const int last = static_cast<int>(call.step.head->first) + at.row;
    const PositionShare share =
        share_positions(last / kAnyTile + 1, 1, static_cast<int>(gridDim.y), at.split);
    if (share.begin == share.end) return;
    float* weighted = room + kTileHeads * call.key_dim;
    const AnyShared shared{room,     weighted, weighted + kTileHeads * call.value_dim,
                           small[0], small[1], small[2]};
    any_prepare(call, at, shared);
    for (int t = share.begin; t < share.end; ++t) {
        const AnyTile<Element> tile = any_tile<Element>(call, at, t, last);
        __syncthreads();
        any_scores(call, shared, tile);
        __syncthreads();
        any_soften(shared);
        __syncthreads();
        any_add(call, at, shared, tile);
    }
    __syncthreads();
    finish_block<1>(call, at, share.active, {shared.weighted, shared.largest, shared.sums});
}

#endif

}  // namespace strata::cuda
