// Attention of many rows, K and V in half precision: causal tiles on tensor cores (Dao 2023,
// "FlashAttention-2"). One block computes kRows rows of one query head; it walks over the positions
// in tiles of kTile, which never cross a page, and copies the next tile while it computes one.
//
// Queries and weights are rounded to halves; products are summed, and the softmax is computed, in
// f32. Shared memory holds rows of 16-byte chunks; chunk c of row r lies at place c ^ (r % 8), so
// that eight rows of one chunk, which is what the matrix loads read, lie in different banks.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_fp16.h>

#include "engine/backend/cuda/kernels/attention_rows.cuh"
#include "engine/backend/cuda/kernels/attention_splits.cuh"

namespace strata::cuda {

template <int kHeadDim>
struct PrefillShape {
    static constexpr int kDim = kHeadDim;
    static constexpr int kTile = 64;                     // positions
    static constexpr int kStrips = kDim <= 128 ? 2 : 1;  // 16-row strips of a warp: registers end
    static constexpr int kWarps = kDim <= 128 ? 4 : 8;
    static constexpr int kRows = kWarps * kStrips * 16;
    static constexpr int kThreads = kWarps * kWarp;
    static constexpr int kBlocksPerProcessor = kDim <= 128 ? 2 : 1;
    static constexpr int kChunks = kDim / 8;  // of a row
    static constexpr int kTileChunks = kTile * kChunks;
    static constexpr int kStages = 2;
    // q, then K and V of each stage.
    static constexpr std::size_t kSharedBytes =
        static_cast<std::size_t>(kRows * kChunks + kStages * 2 * kTileChunks) * 16;
};

#ifdef __CUDACC__

// Byte offset of a chunk in a tile of rows. Rows are powers of two long and tiles are aligned to
// them: with c even, the offset of chunk c + d is that of d with 16 c exclusive-ored, d being 0
// or 1.
template <int kChunks>
__host__ __device__ constexpr int chunk_offset(int row, int chunk) {
    return (row * kChunks + (chunk ^ row % 8)) * 16;
}

// What a block computes, and where its tiles lie.
struct PrefillPlace {
    int head;
    int kv_head;
    int row;      // first row of the block
    int first;    // position of the step's first row
    int length;   // positions that are there
    unsigned kv;  // shared memory: stage s has K at kv + s * 2 * tile bytes, then V
};

// Rows of q as halves; rows that are not there: zeros.
template <class Shape>
__device__ void place_query_rows(const AttentionCall& call, const PrefillPlace& at, char* shared) {
    constexpr float kHalfMax = 65504.0F;
    const auto pair = [](float one, float other) {
        return bits_of(__floats2half2_rn(fminf(fmaxf(one, -kHalfMax), kHalfMax),
                                         fminf(fmaxf(other, -kHalfMax), kHalfMax)));
    };
#pragma unroll 4
    for (int i = static_cast<int>(threadIdx.x); i < Shape::kRows * Shape::kChunks;
         i += Shape::kThreads) {
        const int row = i / Shape::kChunks;
        const int chunk = i % Shape::kChunks;
        uint4 halves = {0, 0, 0, 0};
        if (at.row + row < call.rows) {
            const float* head =
                call.q + (static_cast<std::int64_t>(at.row + row) * call.heads + at.head) *
                             call.query_stride;
            const float4 a = reinterpret_cast<const float4*>(head)[2 * chunk];
            const float4 b = reinterpret_cast<const float4*>(head)[2 * chunk + 1];
            halves = {pair(a.x, a.y), pair(a.z, a.w), pair(b.x, b.y), pair(b.z, b.w)};
        }
        *reinterpret_cast<uint4*>(shared + chunk_offset<Shape::kChunks>(row, chunk)) = halves;
    }
}

// Starts copying K and V of a tile. Rows past the length are zeros: weight 0 times what is not
// there must be 0.
template <class Shape>
__device__ __forceinline__ void copy_tile(const AttentionCall& call, const PrefillPlace& at,
                                          int tile) {
    constexpr int kTilesPerPage = static_cast<int>(kPageTokens) / Shape::kTile;
    static_assert(kPageTokens % Shape::kTile == 0 && Shape::kTileChunks % Shape::kThreads == 0);
    const char* page = static_cast<const char*>(call.step.pages[tile / kTilesPerPage]);
    const int row_bytes = call.kv_heads * Shape::kDim * static_cast<int>(sizeof(__half));
    const int first_row = tile % kTilesPerPage * Shape::kTile;
    const unsigned to = at.kv + tile % Shape::kStages * (2 * Shape::kTileChunks * 16);
    const int head_bytes = at.kv_head * Shape::kDim * static_cast<int>(sizeof(__half));
#pragma unroll
    for (int i = 0; i < Shape::kTileChunks / Shape::kThreads; ++i) {
        const int index = i * Shape::kThreads + static_cast<int>(threadIdx.x);
        const int row = index / Shape::kChunks;
        const int chunk = index % Shape::kChunks;
        const bool there = tile * Shape::kTile + row < at.length;
        const char* from = page + head_bytes + chunk * 16 + (first_row + row) * row_bytes;
        const unsigned place = to + chunk_offset<Shape::kChunks>(row, chunk);
        copy_later(place, from + call.k_offset, there);
        copy_later(place + Shape::kTileChunks * 16, from + call.v_offset, there);
    }
    end_copies();
}

// One warp's rows. A lane holds rows lane / 4 and + 8 of each strip, columns 2 (lane % 4), + 1 of
// each eight.
template <class Shape>
struct PrefillState {
    float weighted[Shape::kStrips][Shape::kDim / 8][4];
    float largest[Shape::kStrips][2];
    float sums[Shape::kStrips][2];  // of this lane's columns
};
template <class Shape>
struct PrefillScores {
    float of[Shape::kStrips][Shape::kTile / 8][4];
};

// The row and chunk that this lane names in matrix loads. Four matrices side by side are rows 0 -
// 7, then 8 - 15 of one chunk and the same of the next one; or, `chunk_first`, both chunks of rows
// 0 - 7 and then those of rows 8 - 15.
template <class Shape>
__device__ __forceinline__ unsigned lane_offset(bool chunk_first) {
    const int matrix = threadIdx.x % kWarp / 8;
    const int row = (chunk_first ? matrix / 2 : matrix % 2) * 8 + static_cast<int>(threadIdx.x) % 8;
    return chunk_offset<Shape::kChunks>(row, chunk_first ? matrix % 2 : matrix / 2);
}

// `q`, `keys`: with the lane's offset.
template <class Shape>
__device__ __forceinline__ void score_rows(unsigned q, unsigned keys,
                                           PrefillScores<Shape>& scores) {
    constexpr int kEightRows = 8 * Shape::kChunks * 16;
#pragma unroll
    for (int s = 0; s < Shape::kStrips; ++s) {
#pragma unroll
        for (int n = 0; n < Shape::kTile / 8; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) scores.of[s][n][e] = 0.0F;
        }
    }
#pragma unroll
    for (int k = 0; k < Shape::kDim / 16; ++k) {
        std::uint32_t a[Shape::kStrips][4];
#pragma unroll
        for (int s = 0; s < Shape::kStrips; ++s) {
            load_matrices<false>(a[s], (q ^ k * 32U) + s * 2 * kEightRows);
        }
#pragma unroll
        for (int n = 0; n < Shape::kTile / 8; n += 2) {
            std::uint32_t b[4];
            load_matrices<false>(b, (keys ^ k * 32U) + n * kEightRows);
#pragma unroll
            for (int s = 0; s < Shape::kStrips; ++s) {
                multiply_tile(scores.of[s][n], a[s], b[0], b[1]);
                multiply_tile(scores.of[s][n + 1], a[s], b[2], b[3]);
            }
        }
    }
}

// Hides the positions after each row's own. `seen`: what the warp's first row sees of the tile.
template <class Shape>
__device__ __forceinline__ void hide_later(PrefillScores<Shape>& scores, int seen) {
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int s = 0; s < Shape::kStrips; ++s) {
#pragma unroll
        for (int n = 0; n < Shape::kTile / 8; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) {
                const int column = n * 8 + lane % 4 * 2 + e % 2;
                const int row = s * 16 + lane / 4 + e / 2 * 8;
                if (column >= seen + row) scores.of[s][n][e] = kHidden;
            }
        }
    }
}

// Weights instead of scores; what was summed before shrinks to the new largest score. `factor`
// turns scores into units of log2 and is positive.
template <class Shape>
__device__ __forceinline__ void soften_rows(PrefillState<Shape>& state,
                                            PrefillScores<Shape>& scores, float factor) {
#pragma unroll
    for (int s = 0; s < Shape::kStrips; ++s) {
        float shrink[2];
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float top = state.largest[s][r];
#pragma unroll
            for (int n = 0; n < Shape::kTile / 8; ++n) {
                top = fmaxf(top, fmaxf(scores.of[s][n][2 * r], scores.of[s][n][2 * r + 1]));
            }
            top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 1));
            top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, 2));
            shrink[r] = power_of_two((state.largest[s][r] - top) * factor);
            state.largest[s][r] = top;
            const float base = kWeightBits - top * factor;
            float sum = 0.0F;
#pragma unroll
            for (int n = 0; n < Shape::kTile / 8; ++n) {
#pragma unroll
                for (int e = 2 * r; e < 2 * r + 2; ++e) {
                    scores.of[s][n][e] = power_of_two(fmaf(scores.of[s][n][e], factor, base));
                    sum += scores.of[s][n][e];
                }
            }
            state.sums[s][r] = fmaf(state.sums[s][r], shrink[r], sum);
        }
        if (!__any_sync(kAllLanes, shrink[0] != 1.0F || shrink[1] != 1.0F)) continue;
#pragma unroll
        for (int n = 0; n < Shape::kDim / 8; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) state.weighted[s][n][e] *= shrink[e / 2];
        }
    }
}

// `values`: with the lane's offset.
template <class Shape>
__device__ __forceinline__ void add_values(PrefillState<Shape>& state,
                                           const PrefillScores<Shape>& weights, unsigned values) {
#pragma unroll
    for (int k = 0; k < Shape::kTile / 16; ++k) {
        std::uint32_t a[Shape::kStrips][4];
#pragma unroll
        for (int s = 0; s < Shape::kStrips; ++s) {
            const auto& left = weights.of[s][2 * k];
            const auto& right = weights.of[s][2 * k + 1];
            a[s][0] = bits_of(__floats2half2_rn(left[0], left[1]));
            a[s][1] = bits_of(__floats2half2_rn(left[2], left[3]));
            a[s][2] = bits_of(__floats2half2_rn(right[0], right[1]));
            a[s][3] = bits_of(__floats2half2_rn(right[2], right[3]));
        }
#pragma unroll
        for (int n = 0; n < Shape::kDim / 8; n += 2) {
            std::uint32_t b[4];
            load_matrices<true>(b, (values ^ n * 16U) + k * 16 * Shape::kChunks * 16);
#pragma unroll
            for (int s = 0; s < Shape::kStrips; ++s) {
                multiply_tile(state.weighted[s][n], a[s], b[0], b[1]);
                multiply_tile(state.weighted[s][n + 1], a[s], b[2], b[3]);
            }
        }
    }
}

template <class Shape>
__device__ void write_prefill_rows(const AttentionCall& call, const PrefillPlace& at,
                                   PrefillState<Shape>& state) {
    const int lane = threadIdx.x % kWarp;
    const int warp_row = static_cast<int>(threadIdx.x) / kWarp * Shape::kStrips * 16;
#pragma unroll
    for (int s = 0; s < Shape::kStrips; ++s) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            float sum = state.sums[s][r];
            sum += __shfl_xor_sync(kAllLanes, sum, 1);
            sum += __shfl_xor_sync(kAllLanes, sum, 2);
            const int row = at.row + warp_row + s * 16 + r * 8 + lane / 4;
            if (row >= call.rows) continue;
            const float share = 1.0F / sum;
            const std::int64_t head = static_cast<std::int64_t>(row) * call.heads + at.head;
            float* out = call.out + head * Shape::kDim + lane % 4 * 2;
            const float* gate = call.q + head * call.query_stride + Shape::kDim + lane % 4 * 2;
#pragma unroll
            for (int n = 0; n < Shape::kDim / 8; ++n) {
                float2 pair = make_float2(state.weighted[s][n][2 * r] * share,
                                          state.weighted[s][n][2 * r + 1] * share);
                if (call.gated) {
                    const float2 gates = *reinterpret_cast<const float2*>(gate + n * 8);
                    pair.x *= sigmoid(gates.x);
                    pair.y *= sigmoid(gates.y);
                }
                *reinterpret_cast<float2*>(out + n * 8) = pair;
            }
        }
    }
}

template <class Shape>
__device__ __forceinline__ void clear_state(PrefillState<Shape>& state) {
#pragma unroll
    for (int s = 0; s < Shape::kStrips; ++s) {
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            state.largest[s][r] = kHidden;
            state.sums[s][r] = 0.0F;
        }
#pragma unroll
        for (int n = 0; n < Shape::kDim / 8; ++n) {
#pragma unroll
            for (int e = 0; e < 4; ++e) state.weighted[s][n][e] = 0.0F;
        }
    }
}

// `shared`: where q lies; K and V follow it.
template <class Shape>
__device__ __forceinline__ PrefillPlace prefill_place(const AttentionCall& call, unsigned shared) {
    PrefillPlace at;
    at.head = static_cast<int>(blockIdx.x);
    at.kv_head = at.head / call.group;
    at.row = static_cast<int>(gridDim.y - 1 - blockIdx.y) * Shape::kRows;
    at.first = static_cast<int>(call.step.head->first);
    const int left = call.rows - at.row;
    at.length = at.first + at.row + (left < Shape::kRows ? left : Shape::kRows);
    at.kv = shared + Shape::kRows * Shape::kChunks * 16;
    return at;
}

// What a warp needs at every tile.
template <class Shape>
struct PrefillWarp {
    float factor;   // turns scores into units of log2
    int first;      // position of its first row
    unsigned q;     // its rows in shared memory; these three with the lane's offset
    unsigned keys;  // from a stage's start
    unsigned values;

    __device__ __forceinline__ PrefillWarp(const AttentionCall& call, const PrefillPlace& at,
                                           unsigned shared) {
        const int row = static_cast<int>(threadIdx.x) / kWarp * Shape::kStrips * 16;
        factor = call.scale * kLog2E;
        first = at.first + at.row + row;
        q = shared + row * Shape::kChunks * 16 + lane_offset<Shape>(false);
        keys = lane_offset<Shape>(true);
        values = lane_offset<Shape>(false) + Shape::kTileChunks * 16;
    }

    // Adds what the warp's rows see of a tile whose K and V lie at `stage`.
    __device__ __forceinline__ void attend(PrefillState<Shape>& state, int tile,
                                           unsigned stage) const {
        const int begin = tile * Shape::kTile;
        if (begin > first + Shape::kStrips * 16 - 1) return;
        PrefillScores<Shape> scores;
        score_rows<Shape>(q, stage + keys, scores);
        const int seen = first + 1 - begin;
        if (seen < Shape::kTile) hide_later<Shape>(scores, seen);
        soften_rows<Shape>(state, scores, factor);
        add_values<Shape>(state, scores, stage + values);
    }
};

#endif

}  // namespace strata::cuda
