// Products of experts with many (token, rank) pairs, on tensor cores: bf16 values, f32 sums.
//
// A block computes one tile of an expert's pairs (ExpertTile) times 128 rows of its weights. It
// walks over the columns 64 at a time: while one tile of activations and weights is multiplied, the
// activations of the next one are copied to shared memory, its weights are unpacked there, and
// those of the one after it are loaded into registers. Four warps share a tile, two by two: each
// has 64 of the weight rows and every other strip of 16 pairs; strips without pairs are left out.
//
// A result depends on its pair and its weight row alone, not on the tile they are in.
#pragma once

#include "engine/backend/cuda/kernels/expert_weights.cuh"
#include "engine/backend/cuda/kernels/products.cuh"
#include "engine/backend/cuda/launch/expert_products.hpp"

namespace strata::cuda {

constexpr int kStripRows = 16;
constexpr int kWarpColumns = 64;  // weight rows of a warp, columns of its results

template <int kStrips>  // of a warp
struct ExpertShape {
    static constexpr int kRows = 2 * kStrips * kStripRows;  // pairs of a tile
    static constexpr int kRowTileBytes = kRows * kTileRowBytes;
    // Two stages of activations, two of weights; then what the rows are.
    static constexpr int kWeightsAt = 2 * kRowTileBytes;
    static constexpr int kRowsAt = kWeightsAt + 2 * kWeightTileBytes;
    static constexpr std::size_t kSharedBytes = kRowsAt + kRows * 2 * sizeof(std::uint32_t);
    // As many as registers and shared memory of a multiprocessor have room for.
    static constexpr int kBlocksHeld = kStrips == 4 ? 2 : 3;
};

// A row of a tile: where its activations begin in 16-byte chunks, and the row of its results.
constexpr std::uint32_t kNoRow = 0xffffffffU;
struct TileRows {
    std::uint32_t* starts;
    std::uint32_t* results;
};

struct ExpertWork {
    const ExpertTile* tiles;
    const std::int32_t* places;
    const void* x;
    std::int64_t cols;
    int used;                 // gated: pair p reads row p / used; else row i of the order
    int rows;                 // of weights, and columns of the results
    int row_tiles;            // tiles of these
    bool gated;               // weights[0] is the gate, weights[1] the up matrix
    RoutedWeight weights[2];  // not gated: the first
    void* y;                  // gated: bf16, in the order of experts; else f32, pair by pair
};

template <int kStrips>
__device__ __forceinline__ void find_rows(const ExpertWork& work, const ExpertTile& tile,
                                          const TileRows& rows) {
    const auto chunks = static_cast<std::uint32_t>(work.cols / 8);
    for (int i = static_cast<int>(threadIdx.x); i < ExpertShape<kStrips>::kRows;
         i += kExpertThreads) {
        const int place = tile.begin + i;
        std::uint32_t start = kNoRow;
        std::uint32_t result = 0;
        if (i < tile.count) {
            const int pair = work.places[place];
            start = static_cast<std::uint32_t>(work.gated ? pair / work.used : place) * chunks;
            result = static_cast<std::uint32_t>(work.gated ? place : pair);
        }
        rows.starts[i] = start;
        rows.results[i] = result;
    }
}

// Starts copying the activations of a tile; zeros for rows and columns that are not there.
template <int kStrips>
__device__ __forceinline__ void fetch_rows(const ExpertWork& work, const TileRows& rows, int tile,
                                           unsigned to) {
    const int chunk = static_cast<int>(threadIdx.x) % kTileChunks;
    const int column = tile * kTileColumns + chunk * 8;
    const auto* x = static_cast<const uint4*>(work.x);
#pragma unroll
    for (int i = 0; i < ExpertShape<kStrips>::kRows * kTileChunks / kExpertThreads; ++i) {
        const int row = (i * kExpertThreads + static_cast<int>(threadIdx.x)) / kTileChunks;
        const std::uint32_t start = rows.starts[row];
        const bool there = start != kNoRow && column < work.cols;
        const std::size_t at = there ? static_cast<std::size_t>(start) + column / 8 : 0;
        copy_later(to + static_cast<unsigned>(tile_offset(row, chunk)), x + at, there);
    }
}

// sums[s][n]: strip s of the warp times eight weight rows. `a`, `b`: tiles with the lane's offset
// and the warp's rows; `strips`: how many have pairs.
template <int kStrips>
__device__ __forceinline__ void multiply_tiles(float (&sums)[kStrips][kWarpColumns / 8][4],
                                               unsigned a, unsigned b, int strips) {
#pragma unroll
    for (int k = 0; k < kTileColumns / 16; ++k) {
        std::uint32_t left[kStrips][4];
        std::uint32_t right[kWarpColumns / 16][4];
#pragma unroll
        for (int n = 0; n < kWarpColumns / 16; ++n) {
            load_matrices<false>(right[n], (b ^ k * 32U) + n * 16 * kTileRowBytes);
        }
#pragma unroll
        for (int s = 0; s < kStrips; ++s) {
            load_matrices<false>(left[s], (a ^ k * 32U) + s * 2 * kStripRows * kTileRowBytes);
        }
#pragma unroll
        for (int s = 0; s < kStrips; ++s) {
            if (s >= strips) break;
#pragma unroll
            for (int n = 0; n < kWarpColumns / 8; ++n) {
                add_bf16_product(sums[s][n], left[s], right[n / 2][n % 2 * 2],
                                 right[n / 2][n % 2 * 2 + 1]);
            }
        }
    }
}

__device__ __forceinline__ float scale_of(const RoutedWeight& weight, int expert) {
    return weight.expert_scales == nullptr ? weight.scale : weight.expert_scales[expert];
}

// Two neighbouring columns of row `result`, which the gate and up products of a thread give.
__device__ __forceinline__ void write_hidden(const ExpertWork& work, std::uint32_t result,
                                             int column, float2 gate, float2 up) {
    if (column >= work.rows) return;
    auto* y = static_cast<unsigned*>(work.y);
    const std::size_t at = static_cast<std::size_t>(result) * work.rows + column;
    y[at / 2] = bf16_pair(silu(gate.x) * up.x, silu(gate.y) * up.y);
}

// The sums of the warp times the weights' scales. Columns are even in number.
template <int kStrips>
__device__ __forceinline__ void write_results(const ExpertWork& work, const TileRows& rows,
                                              int expert, int count, int first_row,
                                              float (&sums)[kStrips][kWarpColumns / 8][4]) {
    const int lane = threadIdx.x % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int warp_column = warp / 2 * kWarpColumns;
    const float scale = scale_of(work.weights[0], expert);
    const float up_scale = work.gated ? scale_of(work.weights[1], expert) : 1.0F;
#pragma unroll
    for (int s = 0; s < kStrips; ++s) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const int row = (2 * s + warp % 2) * kStripRows + r * 8 + lane / 4;
            if (row >= count) continue;
            const std::uint32_t result = rows.results[row];
#pragma unroll
            for (int n = 0; n < kWarpColumns / 8; n += 2) {
                const float2 one = {sums[s][n][2 * r] * scale, sums[s][n][2 * r + 1] * scale};
                float2 other = {sums[s][n + 1][2 * r], sums[s][n + 1][2 * r + 1]};
                if (work.gated) {
                    other = {other.x * up_scale, other.y * up_scale};
                    const int column = first_row + (warp_column + n * 8) / 2 + lane % 4 * 2;
                    write_hidden(work, result, column, one, other);
                    continue;
                }
                other = {other.x * scale, other.y * scale};
                const int column = first_row + warp_column + n * 8 + lane % 4 * 2;
                float* y = static_cast<float*>(work.y) +
                           static_cast<std::size_t>(result) * work.rows + column;
                if (column < work.rows) *reinterpret_cast<float2*>(y) = one;
                if (column + 8 < work.rows) *reinterpret_cast<float2*>(y + 8) = other;
            }
        }
    }
}

// Grid: tiles of pairs, tiles of weight rows; those of the same pairs are neighbours.
template <ElementType kType, int kStrips>
__global__ void __launch_bounds__(kExpertThreads, ExpertShape<kStrips>::kBlocksHeld)
    expert_product_kernel(const __grid_constant__ ExpertWork work) {
#if __CUDA_ARCH__ < 800
    __trap();  // Chip::multiplies_bf16()
#endif
    using Shape = ExpertShape<kStrips>;
    extern __shared__ __align__(1024) uint4 expert_shared[];
    const std::uint32_t* grid = shared_grid<kType>();
    wait_for_previous();
    let_next_start();
    const ExpertTile tile = work.tiles[blockIdx.x / work.row_tiles];
    if (tile.count == 0) return;
    char* shared = reinterpret_cast<char*>(expert_shared);
    auto* words = reinterpret_cast<std::uint32_t*>(shared + Shape::kRowsAt);
    const TileRows rows{words, words + Shape::kRows};
    find_rows<kStrips>(work, tile, rows);
    const int tile_rows = work.gated ? kWeightTileRows / 2 : kWeightTileRows;
    const int first_row = static_cast<int>(blockIdx.x) % work.row_tiles * tile_rows;
    TileWeights<kType> weights;
    const WeightRows weight = weight_rows(work.weights, work.gated, tile.expert, first_row,
                                          work.rows, TileWeights<kType>::kLanes);
    const int last = static_cast<int>((work.cols + kTileColumns - 1) / kTileColumns) - 1;
    const unsigned base = shared_address(shared);
    weights.fetch(weight, work.cols, 0);
    __syncthreads();
    fetch_rows<kStrips>(work, rows, 0, base);
    weights.place(shared + Shape::kWeightsAt, grid);
    if (last > 0) weights.fetch(weight, work.cols, 1);

    const int lane = threadIdx.x % kWarp;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int strips = ((tile.count + kStripRows - 1) / kStripRows + 1 - warp % 2) / 2;
    const unsigned a = base + row_operand_offset(lane) + warp % 2 * kStripRows * kTileRowBytes;
    const unsigned b = base + Shape::kWeightsAt + column_operand_offset(lane) +
                       warp / 2 * kWarpColumns * kTileRowBytes;
    float sums[kStrips][kWarpColumns / 8][4] = {};
    for (int t = 0; t <= last; ++t) {
        wait_for_chunks();
        __syncthreads();  // tile t is there, and nobody reads what tile t + 1 is written over
        if (t < last) {
            const int next = (t + 1) % 2;
            fetch_rows<kStrips>(work, rows, t + 1, base + next * Shape::kRowTileBytes);
            weights.place(shared + Shape::kWeightsAt + next * kWeightTileBytes, grid);
            if (t + 1 < last) weights.fetch(weight, work.cols, t + 2);
        }
        multiply_tiles<kStrips>(sums, a + t % 2 * Shape::kRowTileBytes,
                                b + t % 2 * kWeightTileBytes, strips);
    }
    write_results<kStrips>(work, rows, tile.expert, tile.count, first_row, sums);
}

}  // namespace strata::cuda
