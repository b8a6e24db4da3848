// The kernels of attention of many rows: the walk over the tiles of positions. How a tile is
// attended to is attention_prefill.cuh, int8 rows are attention_codes.cuh, parts prefill_parts.cuh.
#pragma once

#include "engine/backend/cuda/kernels/attention_codes.cuh"
#include "engine/backend/cuda/kernels/attention_prefill.cuh"
#include "engine/backend/cuda/kernels/prefill_parts.cuh"

namespace strata::cuda {

// All tiles that the block sees; kParts: its share of them, which may be none.
template <class Shape, bool kParts>
__device__ __forceinline__ PositionShare tiles_of_block(const PrefillPlace& at) {
    if constexpr (kParts) return share_tiles<Shape>(at);
    return {0, (at.length + Shape::kTile - 1) / Shape::kTile, 1};
}

template <class Shape, bool kParts>
__device__ __forceinline__ void end_block(const AttentionCall& call, const PrefillPlace& at,
                                          int active, float factor, PrefillState<Shape>& state) {
    if constexpr (kParts) {
        finish_prefill<Shape>(call, at, active, factor, state);
    } else {
        write_prefill_rows<Shape>(call, at, state);
    }
}

// Grid: heads, tiles of rows, parts; tiles that see most start first.
template <int kDim, bool kParts>
__global__ void __launch_bounds__(PrefillShape<kDim>::kThreads,
                                  PrefillShape<kDim>::kBlocksPerProcessor)
    attention_prefill_kernel(const __grid_constant__ AttentionCall call) {
    using Shape = PrefillShape<kDim>;
    extern __shared__ __align__(1024) uint4 prefill_shared[];
    wait_for_previous();
    let_next_start();
    const unsigned q = shared_address(prefill_shared);
    const PrefillPlace at = prefill_place<Shape>(call, q);
    const PositionShare share = tiles_of_block<Shape, kParts>(at);
    if (kParts && share.begin >= share.end) return;
    copy_tile<Shape>(call, at, share.begin);
    place_query_rows<Shape>(call, at, reinterpret_cast<char*>(prefill_shared));
    PrefillState<Shape> state;
    clear_state(state);
    const PrefillWarp<Shape> warp(call, at, q);
    const bool here = !kParts || warp_has_rows<Shape>(call, at);
    for (int tile = share.begin; tile < share.end; ++tile) {
        wait_for_copies<0>();
        __syncthreads();
        if (tile + 1 < share.end) copy_tile<Shape>(call, at, tile + 1);
        const unsigned stage = at.kv + tile % Shape::kStages * (2 * Shape::kTileChunks * 16);
        if (here) warp.attend(state, tile, stage);
    }
    end_block<Shape, kParts>(call, at, share.active, warp.factor, state);
}

// The same of int8 rows.
template <int kDim, bool kParts>
__global__ void __launch_bounds__(PrefillShape<kDim>::kThreads,
                                  PrefillShape<kDim>::kBlocksPerProcessor)
    attention_prefill_codes_kernel(const __grid_constant__ AttentionCall call) {
    using Shape = PrefillShape<kDim>;
    using Sizes = PrefillCodes<Shape>;
    extern __shared__ __align__(1024) uint4 prefill_shared[];
    wait_for_previous();
    let_next_start();
    const PrefillPlace at = prefill_place<Shape>(call, shared_address(prefill_shared));
    const PositionShare share = tiles_of_block<Shape, kParts>(at);
    if (kParts && share.begin >= share.end) return;
    char* halves = reinterpret_cast<char*>(prefill_shared) + Shape::kRows * Shape::kChunks * 16;
    char* codes = halves + 2 * Sizes::kTileBytes;
    copy_codes<Shape>(call, at, share.begin, shared_address(codes));
    place_query_rows<Shape>(call, at, reinterpret_cast<char*>(prefill_shared));
    PrefillState<Shape> state;
    clear_state(state);
    const PrefillWarp<Shape> warp(call, at, shared_address(prefill_shared));
    const bool here = !kParts || warp_has_rows<Shape>(call, at);
    for (int tile = share.begin; tile < share.end; ++tile) {
        wait_for_copies<0>();
        __syncthreads();  // all codes are there, and nobody reads the halves of the tile before
        place_codes<Shape>(codes, halves);
        __syncthreads();  // all halves are there, and nobody reads the codes
        if (tile + 1 < share.end) copy_codes<Shape>(call, at, tile + 1, shared_address(codes));
        if (here) warp.attend(state, tile, at.kv);
    }
    end_block<Shape, kParts>(call, at, share.active, warp.factor, state);
}

}  // namespace strata::cuda
