// Launches of products of experts with many pairs, on tensor cores. Weights are read in tiles of
// an expert's pairs (launch_cut_tiles()), unpacked to bf16 and multiplied by bf16 activations.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "engine/backend/cuda/launch/products.hpp"
#include "engine/backend/cuda/launch/routing.hpp"

namespace strata::cuda {

// True when the kernels take experts of this type whose products have `cols` terms and `rows`
// results: copies are of 16 bytes, and F32 weights are not to be rounded.
[[nodiscard]] bool takes_expert_tiles(ElementType type, std::int64_t cols, std::int64_t rows);

// The pairs of a step in tiles, and the order of them that the tiles refer to.
struct TiledPairs {
    const ExpertTile* tiles = nullptr;
    const std::int32_t* places = nullptr;  // launch_group_routes()
    TileCut cut;
};

// hidden[i] = silu(gate x) * (up x) for pair places[i]: [pairs][rows], bf16. Pair p reads row
// p / used of x: [..][cols], bf16. Both weights are of one type.
void launch_gated_expert_product(cudaStream_t stream, ElementType type, const void* x,
                                 std::int64_t cols, std::int64_t used, const TiledPairs& pairs,
                                 const RoutedWeight& gate, const RoutedWeight& up,
                                 std::int64_t rows, void* hidden);

// y[places[i]] = the product with row i of x: x [pairs][cols], bf16; y [pairs][rows], f32.
void launch_expert_product(cudaStream_t stream, ElementType type, const void* x, std::int64_t cols,
                           const TiledPairs& pairs, const RoutedWeight& weight, std::int64_t rows,
                           float* y);

}  // namespace strata::cuda
