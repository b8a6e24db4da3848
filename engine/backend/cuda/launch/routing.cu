#include <algorithm>

#include "engine/backend/cuda/kernels/routing.cuh"
#include "engine/backend/cuda/launch/launch.cuh"
#include "engine/backend/cuda/launch/routing.hpp"
#include "strata/core/invariant.hpp"

namespace strata::cuda {
namespace {

constexpr std::int64_t kFewPairs = 4096;    // a block of four warps counts them soon enough
constexpr std::int64_t kGroupBlocks = 132;  // about as many as multiprocessors read all pairs

template <int kPerLane>
void launch_choice(cudaStream_t stream, const float* scores, std::int64_t rows,
                   std::int64_t experts, const RouteRule& rule, Routes routes) {
    launch(stream, static_cast<unsigned>(ceil_div<std::int64_t>(rows, kChoiceWarps)),
           kWarp * kChoiceWarps, 0, choose_kernel<kPerLane>, scores, rows,
           static_cast<int>(experts), rule, routes);
}

template <int kOwn>
void launch_groups(cudaStream_t stream, Routes routes, std::int64_t pairs, std::int64_t experts,
                   std::int32_t* offsets, std::int32_t* places) {
    const int warps = pairs <= kFewPairs ? 4 : kGroupWarpsMax;
    launch(stream, static_cast<unsigned>(ceil_div<std::int64_t>(experts, kOwn)), kWarp * warps, 0,
           group_kernel<kOwn>, routes.experts, pairs, experts, offsets, places);
}

}  // namespace

void launch_choose_experts(cudaStream_t stream, const float* scores, std::int64_t rows,
                           std::int64_t experts, const RouteRule& rule, Routes routes) {
    STRATA_INVARIANT(rows >= 1 && routes.used >= 1 && routes.used <= experts);
    if (routes.used > kWarp || experts > 32 * kWarp) {
        launch(stream, static_cast<unsigned>(rows), kAnyChoiceThreads, 0, choose_any_kernel, scores,
               experts, rule, routes);
    } else if (experts <= 4 * kWarp) {
        launch_choice<4>(stream, scores, rows, experts, rule, routes);
    } else if (experts <= 8 * kWarp) {
        launch_choice<8>(stream, scores, rows, experts, rule, routes);
    } else if (experts <= 16 * kWarp) {
        launch_choice<16>(stream, scores, rows, experts, rule, routes);
    } else {
        launch_choice<32>(stream, scores, rows, experts, rule, routes);
    }
}

void launch_group_routes(cudaStream_t stream, Routes routes, std::int64_t rows,
                         std::int64_t experts, std::int32_t* offsets, std::int32_t* places) {
    const std::int64_t pairs = rows * routes.used;
    STRATA_INVARIANT(rows >= 1 && routes.used >= 1 && experts >= 1);
    if (experts <= kGroupBlocks) {
        launch_groups<1>(stream, routes, pairs, experts, offsets, places);
    } else if (experts <= 4 * kGroupBlocks) {
        launch_groups<4>(stream, routes, pairs, experts, offsets, places);
    } else {
        launch_groups<8>(stream, routes, pairs, experts, offsets, places);
    }
}

TileCut cut_of(std::int64_t pairs, std::int64_t experts) {
    TileCut out;
    out.rows = pairs <= experts * kShortTileRows ? kShortTileRows : kLongTileRows;
    // Every expert that has pairs fills all its tiles but the last.
    out.tiles = std::min(pairs, pairs / out.rows + experts);
    return out;
}

void launch_cut_tiles(cudaStream_t stream, const std::int32_t* offsets, std::int64_t experts,
                      const TileCut& cut, ExpertTile* tiles) {
    STRATA_INVARIANT(experts >= 1 && cut.rows >= 1 && cut.tiles <= INT32_MAX);
    launch(stream, 1, kCutThreads, 0, cut_tiles_kernel, offsets, static_cast<int>(experts),
           cut.rows, static_cast<int>(cut.tiles), tiles);
}

}  // namespace strata::cuda
