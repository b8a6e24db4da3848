// Launches that choose experts (formulas: strata/backend/ops.hpp).
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "strata/backend/ops.hpp"

namespace strata::cuda {

// scores: [rows][experts] logits of the router. Writes routes.experts and routes.weights.
void launch_choose_experts(cudaStream_t stream, const float* scores, std::int64_t rows,
                           std::int64_t experts, const RouteRule& rule, Routes routes);

// The (token, rank) pairs in the order of their experts, for products of one expert's rows at a
// time: places[offsets[e] .. offsets[e + 1]) are the pairs token * used + rank of expert e, in
// ascending order. offsets: [experts + 1]; places: [rows * used].
void launch_group_routes(cudaStream_t stream, Routes routes, std::int64_t rows,
                         std::int64_t experts, std::int32_t* offsets, std::int32_t* places);

// The lists of pairs cut into tiles of up to `rows` pairs of one expert; `tiles` bounds how many
// there are, whatever the choices.
struct TileCut {
    int rows = 0;
    std::int64_t tiles = 0;
};
// Short tiles keep more blocks loading, long ones unpack a weight for more pairs.
constexpr int kShortTileRows = 64;
constexpr int kLongTileRows = 128;
[[nodiscard]] TileCut cut_of(std::int64_t pairs, std::int64_t experts);

// Pairs places[begin .. begin + count) of an expert; count 0: there are no more tiles.
struct ExpertTile {
    std::int32_t expert = 0;
    std::int32_t begin = 0;
    std::int32_t count = 0;
};
// Writes cut.tiles tiles, in the order of the experts.
void launch_cut_tiles(cudaStream_t stream, const std::int32_t* offsets, std::int64_t experts,
                      const TileCut& cut, ExpertTile* tiles);

}  // namespace strata::cuda
