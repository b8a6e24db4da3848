// What the chunks of the delta rule need before the state is known (delta_tiles.cuh has the
// formulas): the unit vectors, the gates, P, and T = (I + A)^-1. One block has a chunk of a key
// head and all value heads that read it: products of its vectors are computed once.
//
// T: squares of 16 on the diagonal are inverted in f32 by substitution, a column per thread; then
// pairs of squares, and of pairs, are joined: the part below the diagonal of the inverse of
// [[A, 0], [B, C]] is -C^-1 B A^-1. Elements of T are none above 1: they are what is left of k_j in
// later rows, and no row of the recurrence makes a state larger.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/kernels/delta_tiles.cuh"

namespace strata::cuda {

constexpr int kMatrixStride = kChunkRows + 8;  // floats: eight rows of two lie in different banks
constexpr int kMatrixFloats = kChunkRows * kMatrixStride;
constexpr int kVectorTiles = kChunkDim / kTileRow;

// Shared memory: K, then Q, in whose place A and T are when it was read, then the gates.
constexpr int kPrepareMatrices = kVectorsBytes;
constexpr int kPrepareGates =
    kPrepareMatrices + 2 * kMatrixFloats * static_cast<int>(sizeof(float));
constexpr int kPrepareHeadGates =
    kChunkRows * static_cast<int>(sizeof(double) + sizeof(float));  // of a value head
constexpr int prepare_shared_bytes(int shares) {
    return kPrepareGates + shares * kPrepareHeadGates;
}
static_assert(2 * kMatrixFloats * sizeof(float) >= kVectorsBytes);

// The gates of a value head.
struct ChunkGates {
    double* reach;  // G_i
    float* beta;
};
__device__ __forceinline__ ChunkGates gates_of(char* shared, int share) {
    char* at = shared + kPrepareGates + share * kPrepareHeadGates;
    return {reinterpret_cast<double*>(at),
            reinterpret_cast<float*>(at + kChunkRows * sizeof(double))};
}

// A warp computes the gates of value head `head`; rows that are not there change nothing.
__device__ __forceinline__ void place_gates(const DeltaRows& of, std::int64_t first, int head,
                                            const ChunkGates& to) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const float a = of.a[head];
    const float bias = of.dt_bias[head];
    float beta[2];
    double gate[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const std::int64_t row = first + 2 * lane + i;
        const bool there = row < of.rows;
        const std::int64_t at = row * of.value_heads + head;
        beta[i] = there ? sigmoid(of.b[at]) : 0.0F;
        gate[i] = there ? static_cast<double>(a * softplus(of.alpha[at] + bias)) : 0.0;
    }
    double sum = gate[0] + gate[1];
#pragma unroll
    for (int step = 1; step < kWarp; step *= 2) {
        const double before = __shfl_up_sync(kAllLanes, sum, step);
        if (lane >= step) sum += before;
    }
    to.reach[2 * lane] = sum - gate[1];
    to.reach[2 * lane + 1] = sum;
    to.beta[2 * lane] = beta[0];
    to.beta[2 * lane + 1] = beta[1];
}

// A warp makes unit vectors of eight rows and writes them to both places. A lane has the elements
// 16 i + 4 (l / 8) .. + 3 of row l % 8.
__device__ __forceinline__ void place_vectors(const float* rows, std::int64_t stride, int there,
                                              int tile_row, char* shared, char* scratch) {
    constexpr int kQuads = kChunkDim / 16;
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int row = lane % kTileRow;
    const int quad = lane / kTileRow;
    Channels<4> x[kQuads];
    float squares = 0.0F;
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
        x[i] = {};
        if (row < there) x[i].load(rows + row * stride + 16 * i + 4 * quad);
    }
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) squares = __fmaf_rn(x[i].of[e], x[i].of[e], squares);
    }
    squares += __shfl_xor_sync(kAllLanes, squares, 8);
    squares += __shfl_xor_sync(kAllLanes, squares, 16);
    const float factor = kUnitScale / sqrtf(squares + kUnitEpsilon);
#pragma unroll
    for (int i = 0; i < kQuads; ++i) {
        const SplitPair one = split_pair(x[i].of[0] * factor, x[i].of[1] * factor);
        const SplitPair other = split_pair(x[i].of[2] * factor, x[i].of[3] * factor);
        const int at = (tile_row * kVectorTiles + 2 * i + quad / 2) * kTileBytes +
                       row * kTileRowBytes + quad % 2 * 8;
        const uint2 high = make_uint2(one.high, other.high);
        const uint2 low = make_uint2(one.low, other.low);
        *reinterpret_cast<uint2*>(shared + at) = high;
        *reinterpret_cast<uint2*>(shared + at + kVectorsPart) = low;
        *reinterpret_cast<uint2*>(scratch + at) = high;
        *reinterpret_cast<uint2*>(scratch + at + kVectorsPart) = low;
    }
}

// Products of 16 rows of `vectors` with all keys up to theirs; each is kUnitScale^2 times as large.
using ChunkProducts = float[kRowSquares][2][4];
__device__ __forceinline__ void multiply_keys(const char* vectors, const char* keys, int strip,
                                              ChunkProducts& sums) {
    constexpr int kBelow = kVectorTiles * kTileBytes;
    const unsigned left_row =
        shared_address(vectors) + strip * 2 * kBelow + lane_row(kBelow, kTileBytes, false);
    const unsigned right_row = shared_address(keys) + lane_row(kBelow, kTileBytes, true);
#pragma unroll
    for (int square = 0; square < kRowSquares; ++square) {
#pragma unroll
        for (int e = 0; e < 8; ++e) sums[square][e / 4][e % 4] = 0.0F;
    }
#pragma unroll 2
    for (int k = 0; k < kChunkDim / kSquare; ++k) {
        LeftFactor left;
        left.load<false>(left_row + k * 2 * kTileBytes, kVectorsPart);
#pragma unroll
        for (int square = 0; square < kRowSquares; ++square) {
            if (square > strip) break;
            RightFactor<2> right;
            right.load<false>(right_row + square * 2 * kBelow + k * 2 * kTileBytes, kVectorsPart,
                              0);
            add_products(sums[square], left, right);
        }
    }
}

__device__ __forceinline__ float fade_between(double later, double earlier) {
    return expf(static_cast<float>(later - earlier));
}

// What a lane holds of a strip of products, faded: function(square, tile of the square, value in
// column `column`, value in the next one), with zeros right of the diagonal, and on it if
// `kStrict`.
template <bool kStrict, class Function>
__device__ __forceinline__ void for_faded(int strip, const ChunkProducts& sums, const double* reach,
                                          const Function& function) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int row = strip * kSquare + lane / 4;
    const int column = lane % 4 * 2;
    const double own_reach[2] = {reach[row], reach[row + kTileRow]};
    const double* other_reach = reach + column;
#pragma unroll
    for (int square = 0; square < kRowSquares; ++square) {
        if (square > strip) break;
#pragma unroll
        for (int tile = 0; tile < 4; ++tile) {
            const int below = tile % 2;
            const int first = square * kSquare + tile / 2 * kTileRow;  // and `column`
            float faded[2];
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                const int ahead = row + below * kTileRow - (column + first + e);
                const bool counts = kStrict ? ahead > 0 : ahead >= 0;
                faded[e] = counts ? sums[square][tile / 2][2 * below + e] *
                                        fade_between(own_reach[below], other_reach[first + e])
                                  : 0.0F;
            }
            function(square, tile, faded[0], faded[1]);
        }
    }
}

// A warp writes 16 rows of A.
__device__ __forceinline__ void place_coupling(int strip, const ChunkProducts& sums,
                                               const ChunkGates& gates, float* matrix) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int row = strip * kSquare + lane / 4;
    float* to = matrix + row * kMatrixStride + lane % 4 * 2;
    constexpr float kDown = 1.0F / (kUnitScale * kUnitScale);
    const float factor[2] = {gates.beta[row] * kDown, gates.beta[row + kTileRow] * kDown};
    for_faded<true>(strip, sums, gates.reach, [&](int square, int tile, float one, float other) {
        const int offset =
            tile % 2 * kTileRow * kMatrixStride + square * kSquare + tile / 2 * kTileRow;
        *reinterpret_cast<float2*>(to + offset) =
            make_float2(one * factor[tile % 2], other * factor[tile % 2]);
    });
}

// A warp writes 16 rows of P. A lane's two elements lie in order in their tile.
__device__ __forceinline__ void store_weights(int strip, const ChunkProducts& sums,
                                              const ChunkGates& gates, char* weights) {
    char* to = weights + triangle_square(strip, 0) * kSquareBytes +
               static_cast<int>(threadIdx.x) % kWarp * static_cast<int>(sizeof(std::uint32_t));
    constexpr float kDown = 1.0F / kUnitScale;
    for_faded<false>(strip, sums, gates.reach, [&](int square, int tile, float one, float other) {
        const SplitPair halves = split_pair(one * kDown, other * kDown);
        char* at = to + square * kSquareBytes + tile * kTileBytes;
        *reinterpret_cast<std::uint32_t*>(at) = halves.high;
        *reinterpret_cast<std::uint32_t*>(at + kTrianglePart) = halves.low;
    });
}

// Inverses of the squares on the diagonal of I + A, into T.
__device__ __forceinline__ void invert_squares(const float* a, float* t) {
    if (threadIdx.x >= kChunkRows) return;
    const int column = static_cast<int>(threadIdx.x);
    const int first = column / kSquare * kSquare;
    const float* square = a + first * kMatrixStride + first;
    float x[kSquare];
#pragma unroll
    for (int i = 0; i < kSquare; ++i) {
        float sum = first + i == column ? 1.0F : 0.0F;
#pragma unroll
        for (int k = 0; k < i; ++k) sum = __fmaf_rn(-square[i * kMatrixStride + k], x[k], sum);
        x[i] = sum;
        t[(first + i) * kMatrixStride + column] = sum;
    }
}

// sums += left * right of 16 rows, 8 columns and 16 terms between; kUnitScale^2 times as large.
__device__ __forceinline__ void add_square_product(float (&sums)[1][4], const float* left,
                                                   const float* right) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
    const int row = lane / 4;
    const int column = lane % 4 * 2;
    LeftFactor a;
#pragma unroll
    for (int tile = 0; tile < 4; ++tile) {
        const float2 x = *reinterpret_cast<const float2*>(
            left + (row + tile % 2 * kTileRow) * kMatrixStride + column + tile / 2 * kTileRow);
        const SplitPair halves = split_pair(x.x * kUnitScale, x.y * kUnitScale);
        a.high[tile] = halves.high;
        a.low[tile] = halves.low;
    }
    SplitPair b[2];
#pragma unroll
    for (int tile = 0; tile < 2; ++tile) {
        const float* x = right + (column + tile * kTileRow) * kMatrixStride + row;
        b[tile] = split_pair(x[0] * kUnitScale, x[kMatrixStride] * kUnitScale);
    }
    multiply_tile(sums[0], a.low, b[0].high, b[1].high);
    multiply_tile(sums[0], a.high, b[0].low, b[1].low);
    multiply_tile(sums[0], a.high, b[0].high, b[1].high);
}

// A warp's 16 rows and 8 columns.
__device__ __forceinline__ void place_product(const float (&sums)[1][4], float factor, float* to) {
    const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
    for (int below = 0; below < 2; ++below) {
        const float2 out =
            make_float2(sums[0][2 * below] * factor, sums[0][2 * below + 1] * factor);
        *reinterpret_cast<float2*>(to + (lane / 4 + below * kTileRow) * kMatrixStride +
                                   lane % 4 * 2) = out;
    }
}

// Joins inverses of kSize rows to those of twice as many. The product in between takes the place
// of T above its diagonal, which is never read: sums stay in the lower triangles.
template <int kSize>
__device__ __forceinline__ void join_inverses(const float* a, float* t) {
    constexpr int kStrips = kSize / kSquare;
    constexpr int kPairTiles = kStrips * (kSize / kTileRow);
    constexpr float kFactor = 1.0F / (kUnitScale * kUnitScale);
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int pair = warp / kPairTiles;
    const bool works = pair * 2 * kSize < kChunkRows;
    const int row = warp / (kSize / kTileRow) % kStrips * kSquare;
    const int column = warp % (kSize / kTileRow) * kTileRow;
    const int origin = pair * 2 * kSize * (kMatrixStride + 1);
    const int below = origin + kSize * kMatrixStride;
    float* between = t + origin + kSize;
    if (works) {
        float sums[1][4] = {};
        for (int k = column / kSquare * kSquare; k < kSize; k += kSquare) {
            add_square_product(sums, a + below + row * kMatrixStride + k,
                               t + origin + k * kMatrixStride + column);
        }
        place_product(sums, kFactor, between + row * kMatrixStride + column);
    }
    __syncthreads();
    if (works) {
        float sums[1][4] = {};
        for (int k = 0; k <= row; k += kSquare) {
            add_square_product(sums, t + below + kSize + row * kMatrixStride + k,
                               between + k * kMatrixStride + column);
        }
        place_product(sums, -kFactor, t + below + row * kMatrixStride + column);
    }
    __syncthreads();
}

__device__ __forceinline__ void store_inverse(const float* t, char* to) {
    for (int i = static_cast<int>(threadIdx.x); i < kTrianglePart / kTileRowBytes;
         i += kChunkThreads) {
        const int square = i / (4 * kTileRow);
        const int strip = square < 1 ? 0 : square < 3 ? 1 : square < 6 ? 2 : 3;
        const int tile = i / kTileRow % 4;
        const int row = strip * kSquare + tile % 2 * kTileRow + i % kTileRow;
        const int column = (square - triangle_square(strip, 0)) * kSquare + tile / 2 * kTileRow;
        const float* from = t + row * kMatrixStride + column;
        SplitPair halves[4];
#pragma unroll
        for (int pair = 0; pair < 4; ++pair) {
            halves[pair] = split_pair(from[2 * pair] * kUnitScale, from[2 * pair + 1] * kUnitScale);
        }
        *reinterpret_cast<uint4*>(to + i * kTileRowBytes) =
            make_uint4(halves[0].high, halves[1].high, halves[2].high, halves[3].high);
        *reinterpret_cast<uint4*>(to + kTrianglePart + i * kTileRowBytes) =
            make_uint4(halves[0].low, halves[1].low, halves[2].low, halves[3].low);
    }
}

__device__ __forceinline__ void store_gates(const ChunkGates& gates, float* to) {
    const int row = static_cast<int>(threadIdx.x);
    if (row >= kChunkRows) return;
    to[row] = gates.beta[row];
    to[kChunkRows + row] = fade_between(gates.reach[row], 0.0);
    to[2 * kChunkRows + row] = fade_between(gates.reach[kChunkRows - 1], gates.reach[row]);
}

// Grid: x over chunks, y over key heads.
__global__ void __launch_bounds__(kChunkThreads, 2) delta_prepare_kernel(DeltaSegment segment) {
    extern __shared__ __align__(16) char delta_shared[];
    const DeltaRows& of = segment.of;
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int chunk = static_cast<int>(blockIdx.x);
    const int key_head = static_cast<int>(blockIdx.y);
    const int shares = of.value_heads / of.key_heads;
    const std::int64_t first = static_cast<std::int64_t>(chunk) * kChunkRows;
    char* keys = delta_shared;
    char* queries = delta_shared + kVectorsBytes;
    wait_for_previous();
    let_next_start();
    {
        const std::int64_t row = first + warp * kTileRow;
        const float* q = of.c + row * of.c_cols() + key_head * kChunkDim;
        const int there = static_cast<int>(min(of.rows - row, std::int64_t{kTileRow}));
        char* scratch = segment.key_head(chunk, key_head);
        place_vectors(q + of.keys(), of.c_cols(), there, warp, keys, scratch);
        place_vectors(q, of.c_cols(), there, warp, queries, scratch + kVectorsBytes);
    }
    for (int share = warp; share < shares; share += kChunkThreads / kWarp) {
        place_gates(of, first, of.value_head(key_head, share), gates_of(delta_shared, share));
    }
    __syncthreads();
    // Strips have 1 to 4 squares: the two warps of a scheduler have five.
    const bool of_keys = warp < kRowSquares;
    const int strip = of_keys ? warp : 2 * kRowSquares - 1 - warp;
    ChunkProducts sums;
    multiply_keys(of_keys ? keys : queries, keys, strip, sums);
    __syncthreads();  // Q is read
    float* a = reinterpret_cast<float*>(delta_shared + kPrepareMatrices);
    float* t = a + kMatrixFloats;
    for (int share = 0; share < shares; ++share) {
        const ChunkGates gates = gates_of(delta_shared, share);
        char* scratch = segment.value_head(chunk, of.value_head(key_head, share));
        if (of_keys) {
            place_coupling(strip, sums, gates, a);
        } else {
            store_weights(strip, sums, gates, scratch + kTriangleBytes);
        }
        store_gates(gates, reinterpret_cast<float*>(scratch + 2 * kTriangleBytes));
        __syncthreads();
        invert_squares(a, t);
        __syncthreads();
        join_inverses<kSquare>(a, t);
        join_inverses<2 * kSquare>(a, t);
        store_inverse(t, scratch);
    }
}

}  // namespace strata::cuda
