// How the chunked delta rule holds matrices, and how a warp multiplies them.
//
// Chunk: 64 rows. With q, k the unit vectors of its rows, G_i the sum of the gates g up to row i,
// L_ij = e^(G_i - G_j) for j <= i, and S the state before it (Yang et al. 2024, "Gated Delta
// Networks"):
//   A = beta_i (k_i . k_j) L_ij strictly below the diagonal,  T = (I + A)^-1
//   D = T R,  R = diag(beta) (V - diag(e^G) K S)              what each row writes
//   O = (diag(e^G) Q S + P D) / sqrt(key dim),  P = (Q K^T) * L
//   S <- e^(G_last) S + K^T diag(e^(G_last - G)) D
// K, Q, T and P of all chunks are prepared first (delta_prepare.cuh), then each head walks over its
// chunks (delta_chunks.cuh). Between them they lie in scratch memory.
//
// Invariants
//  1. A factor of a product is two halves, its nearest half and what that leaves: 22 bits. All but
//     the product of the two rests is summed, in f32. What lies below 2^-24 is lost, so factors
//     are scaled by powers of two: K, Q, T, P, none above 1, by kUnitScale; the others by a bound
//     of the chunk (ValueScale).
//  2. A matrix is cut into 8 x 8 tiles of 128 contiguous bytes, so that copies are linear and the
//     eight rows of a matrix load lie in different banks, transposed or not.
//  3. Exponents are differences G_i - G_j <= 0, formed in f64: a row that forgets everything
//     (g = -1000) must not cost the next rows their bits.
//  4. Sums over chunks (the state) are not made by tensor cores, which cut off instead of rounding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/cuda/kernels/delta_rule.cuh"
#include "engine/backend/cuda/kernels/split_halves.cuh"
#include "engine/backend/cuda/kernels/warp_instructions.cuh"

namespace strata::cuda {

constexpr int kChunkRows = 64;
constexpr int kChunkDim = 128;      // of keys and of values
constexpr int kChunkThreads = 256;  // of a block of both kernels
constexpr int kChunkSharesMax = 8;  // value heads of a key head; released models have 1 to 4
constexpr float kUnitScale = 256.0F;

constexpr int kTileRow = 8;
constexpr int kTileRowBytes = 16;
constexpr int kTileBytes = kTileRow * kTileRowBytes;
constexpr int kSquare = 16;  // rows and columns of the left factor of one instruction
constexpr int kSquareBytes = 4 * kTileBytes;
constexpr int kRowSquares = kChunkRows / kSquare;
// T and P: the squares up to the diagonal, row by row; a square is its tiles (0, 0), (1, 0), (0,
// 1), (1, 1), as a left factor is loaded.
constexpr int kTriangleSquares = kRowSquares * (kRowSquares + 1) / 2;
__host__ __device__ constexpr int triangle_square(int row, int column) {
    return row * (row + 1) / 2 + column;
}

// Bytes of the high halves of a matrix; the low ones follow.
constexpr int kVectorsPart = kChunkRows * kChunkDim * 2;        // K or Q: tiles [8][16]
constexpr int kTrianglePart = kTriangleSquares * kSquareBytes;  // T or P
constexpr int kChunkGates = 3;                                  // beta, e^G, e^(G_last - G)
constexpr int kGateBytes = kChunkGates * kChunkRows * sizeof(float);
// Scratch of a chunk: for each key head K and Q, for each value head T, P and the gates.
constexpr int kVectorsBytes = 2 * kVectorsPart;
constexpr int kTriangleBytes = 2 * kTrianglePart;
constexpr int kKeyHeadBytes = 2 * kVectorsBytes;
constexpr int kValueHeadBytes = 2 * kTriangleBytes + kGateBytes;

// Part of a step's rows with the scratch of its chunks.
struct DeltaSegment {
    DeltaRows of;
    char* key_heads;    // [chunks][key heads]
    char* value_heads;  // [chunks][value heads]
    int chunks;

    __device__ __forceinline__ char* key_head(int chunk, int head) const {
        return key_heads + (static_cast<std::int64_t>(chunk) * of.key_heads + head) * kKeyHeadBytes;
    }
    __device__ __forceinline__ char* value_head(int chunk, int head) const {
        return value_heads +
               (static_cast<std::int64_t>(chunk) * of.value_heads + head) * kValueHeadBytes;
    }
};

// A square of the left factor: lane l names row l % 8 of tile l / 8.
struct LeftFactor {
    std::uint32_t high[4];
    std::uint32_t low[4];

    template <bool kTransposed>
    __device__ __forceinline__ void load(unsigned row, int part) {
        load_matrices<kTransposed>(high, row);
        load_matrices<kTransposed>(low, row + part);
    }
};

// 16 rows of the right factor and 8 kTiles columns.
template <int kTiles>
struct RightFactor {
    std::uint32_t high[kTiles / 2][4];
    std::uint32_t low[kTiles / 2][4];

    // Two tiles of columns are `step` bytes from the next two. The tiles lie as the matrix does
    // (kTransposed: the instruction wants columns), or as its transpose.
    template <bool kTransposed>
    __device__ __forceinline__ void load(unsigned row, int part, int step) {
#pragma unroll
        for (int pair = 0; pair < kTiles / 2; ++pair) {
            load_matrices<kTransposed>(high[pair], row + pair * step);
            load_matrices<kTransposed>(low[pair], row + pair * step + part);
        }
    }
};

// sums += left * right: 16 rows and 8 kTiles columns. A lane holds of each tile the columns 2 (l %
// 4) and + 1, in row l / 4 and in row l / 4 + 8. The small products come first.
template <int kTiles>
__device__ __forceinline__ void add_products(float (&sums)[kTiles][4], const LeftFactor& left,
                                             const RightFactor<kTiles>& right) {
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
        const std::uint32_t(&b)[4] = right.high[n / 2];
        multiply_tile(sums[n], left.low, b[n % 2 * 2], b[n % 2 * 2 + 1]);
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
        const std::uint32_t(&b)[4] = right.low[n / 2];
        multiply_tile(sums[n], left.high, b[n % 2 * 2], b[n % 2 * 2 + 1]);
    }
#pragma unroll
    for (int n = 0; n < kTiles; ++n) {
        const std::uint32_t(&b)[4] = right.high[n / 2];
        multiply_tile(sums[n], left.high, b[n % 2 * 2], b[n % 2 * 2 + 1]);
    }
}

// The offset of the row that this lane names: in the square of tiles whose first one is 0, the tile
// below is `below` bytes away and the tile to the right `right`. Tiles are loaded column by column,
// or `row_by_row`.
__device__ __forceinline__ int lane_row(int below, int right, bool row_by_row) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int tile = lane / kTileRow;
    const int first = row_by_row ? right : below;
    const int second = row_by_row ? below : right;
    return lane % kTileRow * kTileRowBytes + tile % 2 * first + tile / 2 * second;
}

}  // namespace strata::cuda
