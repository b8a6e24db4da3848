// The weight tile of a product of experts: 128 rows of 64 columns as bf16 in shared memory. Each
// thread loads its part of a tile into registers (fetch), and one tile later unpacks it (place), so
// that the loads are under way while the tile in between is multiplied.
//
// The rows of a tile are rows of one matrix, or, gated, eight of the gate's and the same eight of
// the up matrix in turn: the two products of a hidden value then end in the same thread.
#pragma once

#include <cuda_bf16.h>

#include "engine/backend/cuda/kernels/expert_matrix.cuh"
#include "engine/backend/cuda/kernels/weight_groups.cuh"
#include "engine/backend/cuda/launch/products.hpp"

namespace strata::cuda {

constexpr int kExpertThreads = 128;
constexpr int kWeightTileRows = 128;
constexpr int kWeightTileBytes = kWeightTileRows * kTileRowBytes;

// A thread's rows in weight tiles: `row`, and every `kStride` tile rows from there.
struct WeightRows {
    Planes planes;
    std::int64_t first;  // the first one's number in the planes
    int row;             // and in the rows that the product computes
    int step;            // from one to the next, in both
    int end;             // rows that the product computes
};

// `lanes`: threads that share a row.
__device__ __forceinline__ WeightRows weight_rows(const RoutedWeight (&weights)[2], bool gated,
                                                  int expert, int first_row, int end, int lanes) {
    const int tile_row = static_cast<int>(threadIdx.x) / lanes;
    const int stride = kExpertThreads / lanes;  // a multiple of 16
    const bool second = gated && tile_row / 8 % 2 == 1;
    WeightRows out;
    out.planes = second ? weights[1].planes : weights[0].planes;
    out.row = first_row + (gated ? tile_row / 16 * 8 + tile_row % 8 : tile_row);
    out.step = gated ? stride / 2 : stride;
    out.end = end;
    const std::int64_t rows = second ? weights[1].rows : weights[0].rows;
    const std::int64_t start = second ? weights[1].first_row : weights[0].first_row;
    out.first = expert * rows + start + out.row;
    return out;
}

__device__ __forceinline__ unsigned bf16_pair(float low, float high) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
    return static_cast<unsigned>(__bfloat16_as_ushort(pair.x)) |
           static_cast<unsigned>(__bfloat16_as_ushort(pair.y)) << 16;
}

// How four codes become values, one byte permutation and one or two operations each.
template <ElementType kType>
struct CodeValues {
    // Codes of 0 .. 31: byte and all are the upper mantissa of 1 + code / 128, which the scale and
    // the minimum take along.
    static constexpr bool kSmall = has_min(kType);
    float factor;
    float offset;

    __device__ __forceinline__ CodeValues(float scale, float min)
        : factor(kSmall ? 128.0F * scale : scale), offset(kSmall ? -factor - min : -min) {}

    static __device__ __forceinline__ unsigned prepare(int codes) {
        return kSmall ? static_cast<unsigned>(codes) | 0x80808080U
                      : static_cast<unsigned>(codes) ^ 0x80808080U;
    }
    __device__ __forceinline__ float value(unsigned prepared, int j) const {
        const auto place = static_cast<unsigned>(j);
        if constexpr (kSmall) {
            const unsigned bits = __byte_perm(prepared, 0x3f000000U, 0x7044U | place << 8);
            return __fmaf_rn(factor, __uint_as_float(bits), offset);
        } else {
            // The code plus 128 is the low end of the mantissa of 2^23.
            const unsigned bits = __byte_perm(prepared, 0x4b000000U, 0x7440U | place);
            return __fmaf_rn(factor, __uint_as_float(bits) - 8388736.0F, offset);
        }
    }
};

// Eight elements of a group, quads 2 chunk and 2 chunk + 1.
template <ElementType kType>
__device__ __forceinline__ uint4 bf16_chunk(const Group& group, int chunk) {
    const CodeValues<kType> values(group.scale[chunk / 2], group.min);
    unsigned out[4];
#pragma unroll
    for (int q = 0; q < 2; ++q) {
        const unsigned codes = CodeValues<kType>::prepare(group.codes[2 * chunk + q]);
#pragma unroll
        for (int j = 0; j < 4; j += 2) {
            out[2 * q + j / 2] = bf16_pair(values.value(codes, j), values.value(codes, j + 1));
        }
    }
    return {out[0], out[1], out[2], out[3]};
}

template <ElementType kType, bool kFloat = is_float(kType)>
struct TileWeights;

// Quantised: two threads share a row, a group each.
template <ElementType kType>
struct TileWeights<kType, false> {
    static constexpr int kLanes = kTileColumns / kGroupElements;
    static constexpr int kParts = kWeightTileRows * kLanes / kExpertThreads;
    RawGroup<kType> raw[kParts];
    bool there[kParts];

    __device__ __forceinline__ void fetch(const WeightRows& rows, std::int64_t cols, int tile) {
        const auto groups = static_cast<std::uint32_t>(cols / kGroupElements);
        const std::uint32_t group =
            static_cast<std::uint32_t>(tile) * kLanes + threadIdx.x % kLanes;
        const std::uint32_t first = static_cast<std::uint32_t>(rows.first) * groups + group;
#pragma unroll
        for (int i = 0; i < kParts; ++i) {
            there[i] = group < groups && rows.row + i * rows.step < rows.end;
            if (!there[i]) continue;
            raw[i].load(rows.planes, first + static_cast<std::uint32_t>(i * rows.step) * groups);
        }
    }

    // `shared`: the tile; `grid`: as decode_group() wants it.
    __device__ __forceinline__ void place(char* shared, const std::uint32_t* grid) const {
        const int row = static_cast<int>(threadIdx.x) / kLanes;
        const int chunk = static_cast<int>(threadIdx.x) % kLanes * (kTileChunks / kLanes);
#pragma unroll
        for (int i = 0; i < kParts; ++i) {
            Group group{};
            if (there[i]) group = decode_group<kType>(raw[i], grid);
#pragma unroll
            for (int c = 0; c < kTileChunks / kLanes; ++c) {
                const int at = tile_offset(row + i * kExpertThreads / kLanes, chunk + c);
                *reinterpret_cast<uint4*>(shared + at) = bf16_chunk<kType>(group, c);
            }
        }
    }
};

// Halves: eight threads share a row, 16 bytes each.
template <ElementType kType>
struct TileWeights<kType, true> {
    static_assert(kType != ElementType::f32);
    static constexpr int kLanes = kTileChunks;
    static constexpr int kParts = kWeightTileRows * kLanes / kExpertThreads;
    uint4 raw[kParts];

    __device__ __forceinline__ void fetch(const WeightRows& rows, std::int64_t cols, int tile) {
        const std::int64_t column = tile * kTileColumns + threadIdx.x % kLanes * 8;
#pragma unroll
        for (int i = 0; i < kParts; ++i) {
            raw[i] = {0, 0, 0, 0};
            if (column >= cols || rows.row + i * rows.step >= rows.end) continue;
            raw[i] =
                stream_16(rows.planes.codes + ((rows.first + i * rows.step) * cols + column) * 2);
        }
    }

    __device__ __forceinline__ void place(char* shared, const std::uint32_t*) const {
        const int row = static_cast<int>(threadIdx.x) / kLanes;
        const int chunk = static_cast<int>(threadIdx.x) % kLanes;
#pragma unroll
        for (int i = 0; i < kParts; ++i) {
            uint4 chunk_bits = raw[i];
            if constexpr (kType == ElementType::f16) {
                const auto* pairs = reinterpret_cast<const __half2*>(&raw[i]);
                unsigned out[4];
#pragma unroll
                for (int p = 0; p < 4; ++p) {
                    const float2 two = __half22float2(pairs[p]);
                    out[p] = bf16_pair(two.x, two.y);
                }
                chunk_bits = {out[0], out[1], out[2], out[3]};
            }
            const int at = tile_offset(row + i * kExpertThreads / kLanes, chunk);
            *reinterpret_cast<uint4*>(shared + at) = chunk_bits;
        }
    }
};

}  // namespace strata::cuda
