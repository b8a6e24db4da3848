// Few rows of a long conversation: too few tiles of rows to fill the processors, so the positions
// of a tile of rows are parted among blocks (grid.z), and the last of them to end joins what the
// others wrote (rules 1 to 3 of attention_splits.cuh hold).
//
// A part lies as its threads held it: PrefillState in vectors of four, vector v of thread t at
// v * threads + t. Of warps without rows nothing is written.
#pragma once

#include "engine/backend/cuda/kernels/attention_prefill.cuh"

namespace strata::cuda {

constexpr int kPrefillPartsMax = 32;
constexpr int kPartTilesMin = 8;  // 512 positions: what joining costs is little beside them

template <class Shape>
constexpr int prefill_part_vectors() {
    return Shape::kStrips * (Shape::kDim / 8 + 1);  // weighted values; largest and sums
}
template <class Shape>
constexpr std::int64_t prefill_part_floats() {
    return std::int64_t{4} * prefill_part_vectors<Shape>() * Shape::kThreads;
}

#ifdef __CUDACC__

// Tiles [begin, end) of a block. Each row of the block sees something of the first of them: a row
// that sees nothing has no largest score. So the tiles that the block's first row does not see go
// with the last share.
template <class Shape>
__device__ __forceinline__ PositionShare share_tiles(const PrefillPlace& at) {
    const int seen = (at.first + at.row) / Shape::kTile + 1;
    const int split = static_cast<int>(blockIdx.z);
    PositionShare share = share_positions(seen, kPartTilesMin, static_cast<int>(gridDim.z), split);
    if (split == share.active - 1) share.end = (at.length + Shape::kTile - 1) / Shape::kTile;
    return share;
}

template <class Shape>
__device__ __forceinline__ bool warp_has_rows(const AttentionCall& call, const PrefillPlace& at) {
    return at.row + static_cast<int>(threadIdx.x) / kWarp * Shape::kStrips * 16 < call.rows;
}

template <class Shape>
__device__ __forceinline__ float4* part_of(const AttentionCall& call, int split) {
    const auto tile = static_cast<std::int64_t>(blockIdx.y) * gridDim.x + blockIdx.x;
    return reinterpret_cast<float4*>(call.partials +
                                     (tile * gridDim.z + split) * prefill_part_floats<Shape>()) +
           threadIdx.x;
}

template <class Shape>
__device__ void write_prefill_part(float4* part, const PrefillState<Shape>& state) {
#pragma unroll
    for (int s = 0; s < Shape::kStrips; ++s) {
#pragma unroll
        for (int n = 0; n < Shape::kDim / 8; ++n) {
            const float(&of)[4] = state.weighted[s][n];
            *part = make_float4(of[0], of[1], of[2], of[3]);
            part += Shape::kThreads;
        }
    }
#pragma unroll
    for (int s = 0; s < Shape::kStrips; ++s) {
        *part = make_float4(state.largest[s][0], state.largest[s][1], state.sums[s][0],
                            state.sums[s][1]);
        part += Shape::kThreads;
    }
}

// Reads `active` parts in their order. `factor` turns scores into units of log2.
template <class Shape>
__device__ void read_prefill_parts(const AttentionCall& call, int active, float factor,
                                   PrefillState<Shape>& state) {
    constexpr int kVectors = Shape::kStrips * (Shape::kDim / 8);
    clear_state(state);
    for (int p = 0; p < active; ++p) {
        const float4* tail = part_of<Shape>(call, p) + kVectors * Shape::kThreads;
#pragma unroll
        for (int s = 0; s < Shape::kStrips; ++s) {
            const float4 one = __ldcg(tail + s * Shape::kThreads);
            state.largest[s][0] = fmaxf(state.largest[s][0], one.x);
            state.largest[s][1] = fmaxf(state.largest[s][1], one.y);
        }
    }
    for (int p = 0; p < active; ++p) {
        const float4* part = part_of<Shape>(call, p);
        const float4* tail = part + kVectors * Shape::kThreads;
#pragma unroll
        for (int s = 0; s < Shape::kStrips; ++s) {
            const float4 one = __ldcg(tail + s * Shape::kThreads);
            const float early = power_of_two((one.x - state.largest[s][0]) * factor);
            const float late = power_of_two((one.y - state.largest[s][1]) * factor);
            state.sums[s][0] = fmaf(one.z, early, state.sums[s][0]);
            state.sums[s][1] = fmaf(one.w, late, state.sums[s][1]);
#pragma unroll
            for (int n = 0; n < Shape::kDim / 8; ++n) {
                const float4 four = __ldcg(part);
                part += Shape::kThreads;
                float(&to)[4] = state.weighted[s][n];
                to[0] = fmaf(four.x, early, to[0]);
                to[1] = fmaf(four.y, early, to[1]);
                to[2] = fmaf(four.z, late, to[2]);
                to[3] = fmaf(four.w, late, to[3]);
            }
        }
    }
}

// The end of a block that has positions. All its threads call it.
template <class Shape>
__device__ void finish_prefill(const AttentionCall& call, const PrefillPlace& at, int active,
                               float factor, PrefillState<Shape>& state) {
    const bool here = warp_has_rows<Shape>(call, at);
    if (active > 1) {
        if (here) {
            write_prefill_part<Shape>(part_of<Shape>(call, static_cast<int>(blockIdx.z)), state);
        }
        const unsigned tile = blockIdx.y * gridDim.x + blockIdx.x;
        if (!last_to_arrive(call.counters + tile, active)) return;
        if (here) read_prefill_parts<Shape>(call, active, factor, state);
    }
    if (here) write_prefill_rows<Shape>(call, at, state);
}

#endif

}  // namespace strata::cuda
