// Attention with K and V as int8 codes (strata/backend/kv_rows.hpp), for the same steps and head
// sizes as attention_rows.cuh and attention_prefill.cuh, and made of the same parts.
//
//  1. A code is a half without rounding. Few rows: products take the codes; the scale of a key
//     multiplies its score, that of a value its weight, in f32: results are as exact as those over
//     f16 rows.
//  2. Many rows: a tile's codes are copied into shared memory beside the computation, and become
//     code * scale there, rounded to halves: from there on it is the computation over f16 rows.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_fp16.h>

#include "engine/backend/cuda/kernels/attention_prefill.cuh"
#include "engine/backend/cuda/kernels/attention_rows.cuh"

namespace strata::cuda {

// Shared memory of many rows: q, K and V of a tile as halves, their codes, their scales.
template <class Shape>
struct PrefillCodes {
    static constexpr int kTileBytes = Shape::kTileChunks * 16;     // of K or V as halves
    static constexpr int kCodeBytes = Shape::kTile * Shape::kDim;  // of K or V as codes
    static constexpr int kRowChunks = Shape::kDim / 16;            // 16 codes each
    static constexpr int kChunks = Shape::kTile * kRowChunks;
    static constexpr std::size_t kSharedBytes =
        static_cast<std::size_t>(Shape::kRows * Shape::kChunks * 16 + 2 * kTileBytes +
                                 2 * kCodeBytes + 2 * Shape::kTile * 4);
    static_assert(kChunks % Shape::kThreads == 0 && 2 * Shape::kTile <= Shape::kThreads);
};

#ifdef __CUDACC__

// Four codes as two pairs of halves. The half with the bits 0x6400 + b is 1024 + b; b is the code
// plus 128.
struct CodePairs {
    std::uint32_t first;
    std::uint32_t second;
};
__device__ __forceinline__ CodePairs halves_of_codes(std::uint32_t codes) {
    constexpr std::uint32_t kBias = 0x80808080U;
    constexpr std::uint32_t kHighBytes = 0x64646464U;
    const std::uint32_t biased = codes ^ kBias;
    const std::uint32_t first = __byte_perm(biased, kHighBytes, 0x4140);
    const std::uint32_t second = __byte_perm(biased, kHighBytes, 0x4342);
    const __half2 base = __float2half2_rn(1024.0F + 128.0F);
    return {bits_of(__hsub2(*reinterpret_cast<const __half2*>(&first), base)),
            bits_of(__hsub2(*reinterpret_cast<const __half2*>(&second), base))};
}

// Code `index` of four as a number. The float with the bits 0x4b000000 + b is 2^23 + b.
template <int index>
__device__ __forceinline__ float number_of_code(std::uint32_t codes) {
    const std::uint32_t bits = __byte_perm(codes ^ 0x80808080U, 0x4b000000U, 0x7440 + index);
    return __uint_as_float(bits) - (8388608.0F + 128.0F);
}

// Read once, by this warp alone.
__device__ __forceinline__ uint2 load_codes(const char* from) {
    uint2 out;
    asm volatile("ld.global.L1::no_allocate.L2::128B.v2.u32 {%0,%1}, [%2];"
                 : "=r"(out.x), "=r"(out.y)
                 : "l"(from));
    return out;
}
__device__ __forceinline__ float load_scale(const char* from) {
    float out;
    asm volatile("ld.global.L1::no_allocate.f32 %0, [%1];" : "=f"(out) : "l"(from));
    return out;
}

// Where a product takes what from is as in attention_rows.cuh, with eight bytes for its sixteen.
template <int kDim>
struct KeyTile<kDim, std::int8_t> {
    uint2 of[2][kDim / 32];  // positions lane / 4 and + 8; dimensions 32 j + 8 (lane % 4) ..
    float scales[2];

    __device__ __forceinline__ void load(const TileSource& from, const char* page, int tile) {
        const int lane = threadIdx.x % kWarp;
        const CodedRow& places = from.call->coded_k;
        const char* rows = page + from.call->k_offset;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const char* row = rows + from.coded(tile * kRowsTile + r * 8 + lane / 4, places);
            const char* codes = row + from.kv_head * kDim + lane % 4 * 8;
#pragma unroll
            for (int j = 0; j < kDim / 32; ++j) of[r][j] = load_codes(codes + j * 32);
            scales[r] = load_scale(row + places.scales + from.kv_head * 4);
        }
    }
};

template <int kDim>
struct ValueTile<kDim, std::int8_t> {
    uint2 of[4]
            [kDim / 64];  // positions 2 (lane % 4) + {0, 1, 8, 9}; dimensions 64 j + 8 (lane / 4)
    float scales[2];      // of positions lane / 4 and + 8, whose weights the lane has

    __device__ __forceinline__ void load(const TileSource& from, const char* page, int tile) {
        const int lane = threadIdx.x % kWarp;
        const CodedRow& places = from.call->coded_v;
        const char* rows = page + from.call->v_offset;
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const int position = tile * kRowsTile + lane % 4 * 2 + r % 2 + r / 2 * 8;
            const char* codes =
                rows + from.coded(position, places) + from.kv_head * kDim + lane / 4 * 8;
#pragma unroll
            for (int j = 0; j < kDim / 64; ++j) of[r][j] = load_codes(codes + j * 64);
        }
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const char* row = rows + from.coded(tile * kRowsTile + r * 8 + lane / 4, places);
            scales[r] = load_scale(row + places.scales + from.kv_head * 4);
        }
    }
};

// As over f16 rows; then the keys' scales.
template <int kDim>
__device__ __forceinline__ void score_tile(const KeyTile<kDim, std::int8_t>& keys,
                                           const uint4* fragments, const float (&factors)[2],
                                           float (&scores)[4]) {
    float high[4] = {};
    float low[4] = {};
#pragma unroll
    for (int j = 0; j < kDim / 16; ++j) {
        const uint2& one = keys.of[0][j / 2];
        const uint2& other = keys.of[1][j / 2];
        const CodePairs here = halves_of_codes(j % 2 == 0 ? one.x : one.y);
        const CodePairs there = halves_of_codes(j % 2 == 0 ? other.x : other.y);
        const std::uint32_t a[4] = {here.first, there.first, here.second, there.second};
        const uint4 q = fragments[j * kWarp];
        multiply_tile(high, a, q.x, q.y);
        multiply_tile(low, a, q.z, q.w);
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) {
        scores[e] = (high[e] + low[e]) * (factors[e % 2] * keys.scales[e / 2]);
    }
}

// Weights take the values' scales, less a power of two that all of the tile have in common, so that
// they stay within the range of halves: that goes to the tile's results.
template <int kDim>
__device__ __forceinline__ void add_tile(WarpState<kDim>& state,
                                         const ValueTile<kDim, std::int8_t>& values,
                                         const float (&weights)[4]) {
    float largest = fmaxf(values.scales[0], values.scales[1]);
#pragma unroll
    for (int step = 4; step < kWarp; step *= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
    }
    constexpr int kExponentMax = 126;  // so that 2^exponent and its inverse are normal numbers
    const int exponent =
        min(max((__float_as_int(largest) >> 23 & 255) - 127, -kExponentMax), kExponentMax);
    const float up = ldexpf(1.0F, exponent);
    const float down = ldexpf(1.0F, -exponent);
    const float early_scale = values.scales[0] * down;
    const float late_scale = values.scales[1] * down;
    const SplitPair early = split_pair(weights[0] * early_scale, weights[1] * early_scale);
    const SplitPair late = split_pair(weights[2] * late_scale, weights[3] * late_scale);
    const std::uint32_t high[2] = {transposed(early.high), transposed(late.high)};
    const std::uint32_t low[2] = {transposed(early.low), transposed(late.low)};
#pragma unroll
    for (int j = 0; j < kDim / 64; ++j) {
#pragma unroll
        for (int half = 0; half < 2; ++half) {
            CodePairs of[4];
#pragma unroll
            for (int r = 0; r < 4; ++r) {
                of[r] = halves_of_codes(half == 0 ? values.of[r][j].x : values.of[r][j].y);
            }
#pragma unroll
            for (int pair = 0; pair < 2; ++pair) {
                const auto word = [&](int r) { return pair == 0 ? of[r].first : of[r].second; };
                constexpr unsigned kFirstHalves = 0x5410;
                constexpr unsigned kSecondHalves = 0x7632;
                const std::uint32_t a[4] = {__byte_perm(word(0), word(1), kFirstHalves),
                                            __byte_perm(word(0), word(1), kSecondHalves),
                                            __byte_perm(word(2), word(3), kFirstHalves),
                                            __byte_perm(word(2), word(3), kSecondHalves)};
                float sums[4] = {};
                multiply_tile(sums, a, high[0], high[1]);
                multiply_tile(sums, a, low[0], low[1]);
                float(&to)[4] = state.weighted[j * 4 + half * 2 + pair];
#pragma unroll
                for (int e = 0; e < 4; ++e) to[e] = fmaf(sums[e], up, to[e]);
            }
        }
    }
}

// Starts copying the codes and scales of a tile to `codes` in shared memory: codes of K, of V,
// scales of K, of V. Rows past the length are zeros.
template <class Shape>
__device__ __forceinline__ void copy_codes(const AttentionCall& call, const PrefillPlace& at,
                                           int tile, unsigned codes) {
    using Sizes = PrefillCodes<Shape>;
    constexpr int kTilesPerPage = static_cast<int>(kPageTokens) / Shape::kTile;
    const char* page = static_cast<const char*>(call.step.pages[tile / kTilesPerPage]);
    const int first_row = tile % kTilesPerPage * Shape::kTile;
    const int thread = static_cast<int>(threadIdx.x);
#pragma unroll
    for (int i = 0; i < Sizes::kChunks / Shape::kThreads; ++i) {
        const int index = i * Shape::kThreads + thread;
        const int row = index / Sizes::kRowChunks;
        const bool there = tile * Shape::kTile + row < at.length;
        const char* head = page + at.kv_head * Shape::kDim + index % Sizes::kRowChunks * 16;
        const unsigned place = codes + index * 16;
        copy_later(place, head + call.k_offset + (first_row + row) * call.coded_k.bytes, there);
        copy_later(place + Sizes::kCodeBytes,
                   head + call.v_offset + (first_row + row) * call.coded_v.bytes, there);
    }
    if (thread < 2 * Shape::kTile) {
        const bool value = thread >= Shape::kTile;
        const CodedRow& places = value ? call.coded_v : call.coded_k;
        const int row = thread % Shape::kTile;
        const char* from = page + (value ? call.v_offset : call.k_offset) +
                           (first_row + row) * places.bytes + places.scales + at.kv_head * 4;
        copy_part_later<4>(codes + 2 * Sizes::kCodeBytes + thread * 4, from,
                           tile * Shape::kTile + row < at.length);
    }
    end_copies();
}

// The codes that have arrived as halves, in the places where copy_tile() of attention_prefill.cuh
// puts f16 rows.
template <class Shape>
__device__ __forceinline__ void place_codes(const char* codes, char* halves) {
    using Sizes = PrefillCodes<Shape>;
    const auto* scales = reinterpret_cast<const float*>(codes + 2 * Sizes::kCodeBytes);
#pragma unroll
    for (int value = 0; value < 2; ++value) {
        const char* from = codes + value * Sizes::kCodeBytes;
        char* to = halves + value * Sizes::kTileBytes;
#pragma unroll 2
        for (int i = 0; i < Sizes::kChunks / Shape::kThreads; ++i) {
            const int index = i * Shape::kThreads + static_cast<int>(threadIdx.x);
            const int row = index / Sizes::kRowChunks;
            const int chunk = index % Sizes::kRowChunks;
            const uint4 four = reinterpret_cast<const uint4*>(from)[index];
            const float scale = scales[value * Shape::kTile + row];
            const auto pairs = [scale](std::uint32_t of) {
                return make_uint2(bits_of(__floats2half2_rn(number_of_code<0>(of) * scale,
                                                            number_of_code<1>(of) * scale)),
                                  bits_of(__floats2half2_rn(number_of_code<2>(of) * scale,
                                                            number_of_code<3>(of) * scale)));
            };
            const uint2 a = pairs(four.x);
            const uint2 b = pairs(four.y);
            const uint2 c = pairs(four.z);
            const uint2 d = pairs(four.w);
            *reinterpret_cast<uint4*>(to + chunk_offset<Shape::kChunks>(row, 2 * chunk)) =
                make_uint4(a.x, a.y, b.x, b.y);
            *reinterpret_cast<uint4*>(to + chunk_offset<Shape::kChunks>(row, 2 * chunk + 1)) =
                make_uint4(c.x, c.y, d.x, d.y);
        }
    }
}

#endif

}  // namespace strata::cuda
