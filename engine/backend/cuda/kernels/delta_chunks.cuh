// The delta rule over the chunks of a segment, one after the other (delta_tiles.cuh has the
// formulas). One block has 32 columns of a value head's state, in registers: columns do not depend
// on each other. Warp w holds the state's rows 16 w .. 16 w + 15.
//
// A chunk, between barriers:
//  1. K S by the first four warps, 16 rows each, which make R of it; Q S by the other four.
//  2. D = T R, once as it is and once faded to the end of the chunk.
//  3. O by the other four warps; all add K^T D to the state and place its halves for the next
//  chunk.
// What a later part reads is copied while earlier ones compute; a place is written again when a
// barrier has shown that all have read it.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/kernels/delta_tiles.cuh"

namespace strata::cuda {

constexpr int kSliceColumns = 32;
constexpr int kSliceTiles = kSliceColumns / kTileRow;
constexpr int kSlices = kChunkDim / kSliceColumns;
constexpr int kSliceStep = 2 * kTileBytes;             // two tiles of columns
constexpr int kSliceBelow = kSliceTiles * kTileBytes;  // the next tiles of rows
constexpr int kVectorsBelow = kChunkDim / kTileRow * kTileBytes;
constexpr int kStatePart = kChunkDim * kSliceColumns * 2;
constexpr int kValuesPart = kChunkRows * kSliceColumns * 2;
constexpr int kSliceWarps = kChunkThreads / kWarp;
static_assert(kSliceWarps * kSquare == kChunkDim && kSliceWarps == 2 * kRowSquares);

// Shared memory. K and the gates of the next chunk come while those of this one are read.
constexpr int kPlaceKeys = 0;
constexpr int kPlaceQueries = kPlaceKeys + 2 * kVectorsBytes;
constexpr int kPlaceInverse = kPlaceQueries + kVectorsBytes;
constexpr int kPlaceWeights = kPlaceInverse + kTriangleBytes;
constexpr int kPlaceState = kPlaceWeights + kTriangleBytes;
constexpr int kPlaceWanted = kPlaceState + 2 * kStatePart;    // R
constexpr int kPlaceChange = kPlaceWanted + 2 * kValuesPart;  // D
constexpr int kPlaceFaded = kPlaceChange + 2 * kValuesPart;
constexpr int kPlaceGates = kPlaceFaded + 2 * kValuesPart;
constexpr int kPlaceBounds = kPlaceGates + 2 * kGateBytes;
constexpr int kChunksSharedBytes = kPlaceBounds + kSliceWarps * static_cast<int>(sizeof(float));

// A power of two that puts all values of a chunk below the largest half.
//
// With s the largest |element| of the state before the chunk and v that of V, every column of the
// state is at most sqrt(128) s long, and each of the 64 rows, with |k| <= 1 and beta <= 1, makes it
// at most v longer. |S^T k| is not more than that, nor is an element of S; R and D are at most v
// more.
struct ValueScale {
    float up;
    float down;
};
constexpr float kBoundState = 12.0F;
constexpr float kBoundValues = kChunkRows + 1.0F;
__device__ __forceinline__ ValueScale scale_below(float bound) {
    constexpr int kHalfBits = 15;  // halves end below 2^16
    constexpr int kFloatBias = 127;
    constexpr int kFloatBits = 23;
    // Beyond these, scales and their quotients would leave f32.
    constexpr int kSmallest = -40;
    constexpr int kLargest = 60;
    const int bits = static_cast<int>(__float_as_uint(bound) >> kFloatBits) - kFloatBias + 1;
    const int exponent = kHalfBits - min(max(bits, kSmallest), kLargest);
    return {__uint_as_float(static_cast<unsigned>(kFloatBias + exponent) << kFloatBits),
            __uint_as_float(static_cast<unsigned>(kFloatBias - exponent) << kFloatBits)};
}

// 16 rows and 32 columns as a warp's sums lie; of a lane: rows l / 4 and + 8, columns 8 n + 2 (l %
// 4) and + 1.
using SliceSums = float[kSliceTiles][4];

__device__ __forceinline__ float largest_of(const SliceSums& values) {
    float out = 0.0F;
#pragma unroll
    for (int n = 0; n < kSliceTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) out = fmaxf(out, fabsf(values[n][e]));
    }
    return out;
}

__device__ __forceinline__ void clear(SliceSums& sums) {
#pragma unroll
    for (int n = 0; n < kSliceTiles; ++n) {
#pragma unroll
        for (int e = 0; e < 4; ++e) sums[n][e] = 0.0F;
    }
}

template <int kBytes>
__device__ __forceinline__ void start_copies(unsigned to, const char* from) {
    static_assert(kBytes % kTileRowBytes == 0);
    constexpr int kCopies = kBytes / kTileRowBytes;
#pragma unroll
    for (int i = 0; i < (kCopies + kChunkThreads - 1) / kChunkThreads; ++i) {
        const int at = i * kChunkThreads + static_cast<int>(threadIdx.x);
        if (at < kCopies) copy_later(to + at * kTileRowBytes, from + at * kTileRowBytes);
    }
}

// One block's walk.
struct SliceWalk {
    const DeltaSegment& segment;
    char* shared;
    unsigned place;  // of `shared`
    int head;
    int key_head;
    int column;  // the slice's first
    int warp;
    int lane;

    // Rows 16 `strip` .. of V, and of O.
    __device__ __forceinline__ int row_of(int strip, int below) const {
        return strip * kSquare + below * kTileRow + lane / 4;
    }
    __device__ __forceinline__ int column_of(int n) const {
        return column + n * kTileRow + lane % 4 * 2;
    }
    __device__ __forceinline__ const float* gate(int chunk, int which) const {
        return reinterpret_cast<const float*>(shared + kPlaceGates + chunk % 2 * kGateBytes) +
               which * kChunkRows;
    }
    __device__ __forceinline__ unsigned keys(int chunk) const {
        return place + kPlaceKeys + chunk % 2 * kVectorsBytes;
    }

    // Each is one group of copies, empty behind the last chunk.
    __device__ __forceinline__ void copy_vectors(int chunk) const {
        if (chunk < segment.chunks) {
            const char* from = segment.key_head(chunk, key_head);
            start_copies<kVectorsBytes>(keys(chunk), from);
            start_copies<kVectorsBytes>(place + kPlaceQueries, from + kVectorsBytes);
            start_copies<kGateBytes>(place + kPlaceGates + chunk % 2 * kGateBytes,
                                     segment.value_head(chunk, head) + 2 * kTriangleBytes);
        }
        end_copies();
    }
    __device__ __forceinline__ void copy_inverse(int chunk) const {
        if (chunk < segment.chunks) {
            start_copies<kTriangleBytes>(place + kPlaceInverse, segment.value_head(chunk, head));
        }
        end_copies();
    }
    __device__ __forceinline__ void copy_weights(int chunk) const {
        if (chunk < segment.chunks) {
            start_copies<kTriangleBytes>(place + kPlaceWeights,
                                         segment.value_head(chunk, head) + kTriangleBytes);
        }
        end_copies();
    }

    // V of the first warps' rows; zeros behind the last row and in the other warps.
    __device__ __forceinline__ void load_values(int chunk, SliceSums& values) const {
        const DeltaRows& of = segment.of;
        clear(values);
        if (warp >= kRowSquares || chunk >= segment.chunks) return;
#pragma unroll
        for (int below = 0; below < 2; ++below) {
            const std::int64_t row =
                static_cast<std::int64_t>(chunk) * kChunkRows + row_of(warp, below);
            if (row >= of.rows) continue;
            const float* from = of.c + row * of.c_cols() + 2 * of.keys() + head * kChunkDim;
#pragma unroll
            for (int n = 0; n < kSliceTiles; ++n) {
                const float2 two = *reinterpret_cast<const float2*>(from + column_of(n));
                values[n][2 * below] = two.x;
                values[n][2 * below + 1] = two.y;
            }
        }
    }

    // Each warp's part of the next chunk's bound; and the bound when all parts are there.
    __device__ __forceinline__ void place_bound(const SliceSums& state,
                                                const SliceSums& values) const {
        const float bound =
            warp_max(largest_of(state)) * kBoundState + warp_max(largest_of(values)) * kBoundValues;
        if (lane == 0) reinterpret_cast<float*>(shared + kPlaceBounds)[warp] = bound;
    }
    // The sum of all parts: at least the largest state and the largest V together.
    __device__ __forceinline__ ValueScale scale() const {
        const float* parts = reinterpret_cast<const float*>(shared + kPlaceBounds);
        float bound = 0.0F;
#pragma unroll
        for (int i = 0; i < kSliceWarps; ++i) bound += parts[i];
        return scale_below(bound);
    }

    // The halves of 16 rows and 8 kTiles columns, scaled.
    template <int kTiles>
    __device__ __forceinline__ void place_halves(const float (&values)[kTiles][4], float upper,
                                                 float lower, int to, int part, int strip,
                                                 int first_tile) const {
#pragma unroll
        for (int n = 0; n < kTiles; ++n) {
#pragma unroll
            for (int below = 0; below < 2; ++below) {
                const float factor = below == 0 ? upper : lower;
                const SplitPair halves =
                    split_pair(values[n][2 * below] * factor, values[n][2 * below + 1] * factor);
                char* at = shared + to + (2 * strip + below) * kSliceBelow +
                           (first_tile + n) * kTileBytes +
                           lane * static_cast<int>(sizeof(std::uint32_t));
                *reinterpret_cast<std::uint32_t*>(at) = halves.high;
                *reinterpret_cast<std::uint32_t*>(at + part) = halves.low;
            }
        }
    }

    // sums = 16 rows of K or of Q times the state.
    __device__ __forceinline__ void multiply_state(int chunk, SliceSums& sums) const {
        const unsigned vectors = warp < kRowSquares ? keys(chunk) : place + kPlaceQueries;
        const unsigned left_row = vectors + warp % kRowSquares * 2 * kVectorsBelow +
                                  lane_row(kVectorsBelow, kTileBytes, false);
        const unsigned right_row = place + kPlaceState + lane_row(kSliceBelow, kTileBytes, false);
        clear(sums);
#pragma unroll 4
        for (int k = 0; k < kChunkDim / kSquare; ++k) {
            LeftFactor left;
            RightFactor<kSliceTiles> right;
            left.load<false>(left_row + k * 2 * kTileBytes, kVectorsPart);
            right.load<true>(right_row + k * 2 * kSliceBelow, kStatePart, kSliceStep);
            add_products(sums, left, right);
        }
    }

    // sums += 16 rows of a lower triangle (T, P) times columns of R or D.
    template <int kTiles>
    __device__ __forceinline__ void multiply_triangle(int triangle, int values, int strip,
                                                      int first_tile,
                                                      float (&sums)[kTiles][4]) const {
        const unsigned left_row =
            place + triangle + triangle_square(strip, 0) * kSquareBytes + lane * kTileRowBytes;
        const unsigned right_row =
            place + values + first_tile * kTileBytes + lane_row(kSliceBelow, kTileBytes, false);
#pragma unroll
        for (int k = 0; k < kRowSquares; ++k) {
            if (k > strip) break;
            LeftFactor left;
            RightFactor<kTiles> right;
            left.load<false>(left_row + k * kSquareBytes, kTrianglePart);
            right.template load<true>(right_row + k * 2 * kSliceBelow, kValuesPart, kSliceStep);
            add_products(sums, left, right);
        }
    }

    // R = diag(beta) (V - diag(e^G) K S), from sums = K S at `state_scale`.
    __device__ __forceinline__ void place_wanted(int chunk, const SliceSums& sums,
                                                 const SliceSums& values,
                                                 const ValueScale& state_scale,
                                                 const ValueScale& scale) const {
        SliceSums wanted;
        float factor[2];
#pragma unroll
        for (int below = 0; below < 2; ++below) {
            const int row = row_of(warp, below);
            factor[below] = gate(chunk, 0)[row] * scale.up;
            const float fade = gate(chunk, 1)[row] * (state_scale.down / kUnitScale);
#pragma unroll
            for (int n = 0; n < kSliceTiles; ++n) {
#pragma unroll
                for (int e = 2 * below; e < 2 * below + 2; ++e) {
                    wanted[n][e] = __fmaf_rn(-fade, sums[n][e], values[n][e]);
                }
            }
        }
        place_halves(wanted, factor[0], factor[1], kPlaceWanted, kValuesPart, warp, 0);
    }

    // D = T R: 16 rows and half of the columns; the two warps of a scheduler have five squares.
    __device__ __forceinline__ void place_change(int chunk) const {
        constexpr int kTiles = kSliceTiles / 2;
        const bool upper = warp < kRowSquares;
        const int strip = upper ? warp : 2 * kRowSquares - 1 - warp;
        const int first_tile = upper ? 0 : kTiles;
        float sums[kTiles][4] = {};
        multiply_triangle(kPlaceInverse, kPlaceWanted, strip, first_tile, sums);
        constexpr float kDown = 1.0F / kUnitScale;
        const float* to_end = gate(chunk, 2);
        place_halves(sums, kDown, kDown, kPlaceChange, kValuesPart, strip, first_tile);
        place_halves(sums, to_end[row_of(strip, 0)] * kDown, to_end[row_of(strip, 1)] * kDown,
                     kPlaceFaded, kValuesPart, strip, first_tile);
    }

    // O of the other warps' rows, from sums = Q S at `state_scale`.
    __device__ __forceinline__ void store_answers(int chunk, const SliceSums& sums,
                                                  const ValueScale& state_scale,
                                                  const ValueScale& scale) const {
        const DeltaRows& of = segment.of;
        const int strip = warp - kRowSquares;
        const float query_factor = 1.0F / (sqrtf(static_cast<float>(kChunkDim)) * kUnitScale);
        SliceSums own;
        clear(own);
        multiply_triangle(kPlaceWeights, kPlaceChange, strip, 0, own);
        const float own_factor = query_factor * scale.down;
#pragma unroll
        for (int below = 0; below < 2; ++below) {
            const int row = row_of(strip, below);
            const std::int64_t at = static_cast<std::int64_t>(chunk) * kChunkRows + row;
            if (at >= of.rows) continue;
            const float fade = gate(chunk, 1)[row] * query_factor * state_scale.down;
            float* to = of.o + at * of.o_cols() + head * kChunkDim;
#pragma unroll
            for (int n = 0; n < kSliceTiles; ++n) {
                const float2 out = make_float2(
                    __fmaf_rn(fade, sums[n][2 * below], own_factor * own[n][2 * below]),
                    __fmaf_rn(fade, sums[n][2 * below + 1], own_factor * own[n][2 * below + 1]));
                *reinterpret_cast<float2*>(to + column_of(n)) = out;
            }
        }
    }

    // S <- e^(G_last) S + K^T diag(e^(G_last - G)) D
    __device__ __forceinline__ void change_state(int chunk, const ValueScale& scale,
                                                 SliceSums& state) const {
        const unsigned left_row =
            keys(chunk) + warp * 2 * kTileBytes + lane_row(kVectorsBelow, kTileBytes, true);
        const unsigned right_row = place + kPlaceFaded + lane_row(kSliceBelow, kTileBytes, false);
        SliceSums sums;
        clear(sums);
#pragma unroll
        for (int k = 0; k < kRowSquares; ++k) {
            LeftFactor left;
            RightFactor<kSliceTiles> right;
            left.load<true>(left_row + k * 2 * kVectorsBelow, kVectorsPart);
            right.load<true>(right_row + k * 2 * kSliceBelow, kValuesPart, kSliceStep);
            add_products(sums, left, right);
        }
        const float fade = gate(chunk, 1)[kChunkRows - 1];
        const float factor = scale.down / kUnitScale;
#pragma unroll
        for (int n = 0; n < kSliceTiles; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                state[n][e] = __fmaf_rn(factor, sums[n][e], fade * state[n][e]);
            }
        }
    }
};

// function(two elements of a lane's state, their place in the matrix of the head)
template <class Function>
__device__ __forceinline__ void for_state(const SliceWalk& walk, SliceSums& state, float* matrix,
                                          const Function& function) {
#pragma unroll
    for (int below = 0; below < 2; ++below) {
        float* row = matrix + walk.row_of(walk.warp, below) * kChunkDim;
#pragma unroll
        for (int n = 0; n < kSliceTiles; ++n) {
            function(&state[n][2 * below], reinterpret_cast<float2*>(row + walk.column_of(n)));
        }
    }
}

// Grid: x over the slices of a head, y over value heads.
__global__ void __launch_bounds__(kChunkThreads, 1)
    delta_chunks_kernel(StepView step, DeltaSegment segment) {
    extern __shared__ __align__(16) char delta_shared[];
    const DeltaRows& of = segment.of;
    const int head = static_cast<int>(blockIdx.y);
    const SliceWalk walk{segment,
                         delta_shared,
                         shared_address(delta_shared),
                         head,
                         of.key_head(head),
                         static_cast<int>(blockIdx.x) * kSliceColumns,
                         static_cast<int>(threadIdx.x) / kWarp,
                         static_cast<int>(threadIdx.x) % kWarp};
    wait_for_previous();
    let_next_start();
    walk.copy_vectors(0);
    walk.copy_inverse(0);
    float* matrix = running_floats(step, of.state_offset) +
                    static_cast<std::int64_t>(head) * kChunkDim * kChunkDim;
    SliceSums state;
    for_state(walk, state, matrix, [](float* two, const float2* from) {
        two[0] = from->x;
        two[1] = from->y;
    });
    SliceSums values;
    walk.load_values(0, values);
    walk.place_bound(state, values);
    __syncthreads();
    ValueScale state_scale = walk.scale();
    walk.place_halves(state, state_scale.up, state_scale.up, kPlaceState, kStatePart, walk.warp, 0);
    wait_for_copies<1>();
    __syncthreads();
    const bool first_warps = walk.warp < kRowSquares;
    for (int chunk = 0; chunk < segment.chunks; ++chunk) {
        const ValueScale scale = walk.scale();
        walk.copy_weights(chunk);
        SliceSums sums;
        walk.multiply_state(chunk, sums);
        if (first_warps) walk.place_wanted(chunk, sums, values, state_scale, scale);
        walk.load_values(chunk + 1, values);
        wait_for_copies<1>();
        __syncthreads();

        walk.copy_vectors(chunk + 1);
        walk.place_change(chunk);
        wait_for_copies<1>();
        __syncthreads();

        walk.copy_inverse(chunk + 1);
        if (!first_warps) walk.store_answers(chunk, sums, state_scale, scale);
        walk.change_state(chunk, scale, state);
        walk.place_halves(state, scale.up, scale.up, kPlaceState, kStatePart, walk.warp, 0);
        walk.place_bound(state, values);
        state_scale = scale;
        wait_for_copies<1>();
        __syncthreads();
    }
    for_state(walk, state, matrix,
              [](const float* two, float2* to) { *to = make_float2(two[0], two[1]); });
}

}  // namespace strata::cuda
