// One group (32 elements) of a quantised weight, from its tile to int8 codes and scales:
//   element e = scale[e / 16] * code[e] - min.
// Order of the codes in a group's plane bytes, quad q being the elements 4q .. 4q + 3:
//   Q8_0                 byte e is element e
//   Q4_0 Q4_K Q5_K Q6_K  byte 4w + j: low nibble element 8w + j, high nibble element 8w + 4 + j
//   IQ4_NL MXFP4 NVFP4   byte i: low nibble element 2i, high nibble element 2i + 1
//   Q5_K highs           bit q of byte j: fifth bit of element 4q + j
//   Q6_K highs           bits 2q' and 2q' + 1 (q' = q % 4) of byte 4 (q / 4) + j: of element 4q + j
//   IQ3_S                codes: low 8 bits of quad q's grid index; highs: sign bit e of element e;
//                        scales: the ninth bits of the indices, then 1 + 2 * scale
#pragma once

#include <cuda_fp16.h>

#include "engine/backend/cuda/launch/launch.cuh"
#include "engine/backend/cuda/weight_planes.hpp"
#include "strata/backend/iq3s_grid.hpp"

namespace strata::cuda {

static __constant__ std::array<std::uint32_t, 512> kGrid = kIq3sGrid;

// Weights are read once per step: they need not push anything else out of the first-level cache.
__device__ __forceinline__ uint4 stream_16(const void* at) {
    uint4 out;
    asm("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
        : "=r"(out.x), "=r"(out.y), "=r"(out.z), "=r"(out.w)
        : "l"(at));
    return out;
}
__device__ __forceinline__ uint2 stream_8(const void* at) {
    uint2 out;
    asm("ld.global.nc.L1::no_allocate.v2.u32 {%0,%1}, [%2];" : "=r"(out.x), "=r"(out.y) : "l"(at));
    return out;
}
__device__ __forceinline__ unsigned stream_4(const void* at) {
    unsigned out;
    asm("ld.global.nc.L1::no_allocate.u32 %0, [%1];" : "=r"(out) : "l"(at));
    return out;
}

// What is loaded of a group, before any of it is used.
template <ElementType kType>
struct RawGroup {
    static constexpr PlaneBytes kBytes = plane_bytes(kType);
    static constexpr TileLayout kLayout = tile_layout(kType);
    uint4 codes[kBytes.codes == 32 ? 2 : 1];
    uint2 highs;
    unsigned scales;
    unsigned block;

    __device__ __forceinline__ void load(const Planes& planes, std::uint32_t group) {
        // The tile's number fits 32 bits, its offset may not.
        const std::size_t tile_number = group / kTileGroups;
        load_place(planes.codes + tile_number * kLayout.bytes, group % kTileGroups);
    }
    // Group `place` of the tile at `tile`.
    __device__ __forceinline__ void load_place(const std::uint8_t* tile, unsigned place) {
        if constexpr (kBytes.codes == 8) {
            const uint2 half = stream_8(tile + place * 8);
            codes[0].x = half.x;
            codes[0].y = half.y;
        } else {
            codes[0] = stream_16(tile + place * kBytes.codes);
        }
        if constexpr (kBytes.codes == 32) codes[1] = stream_16(tile + place * 32 + 16);
        if constexpr (kBytes.highs == 4) highs.x = stream_4(tile + kLayout.highs + place * 4);
        if constexpr (kBytes.highs == 8) highs = stream_8(tile + kLayout.highs + place * 8);
        const std::uint8_t* scale = tile + kLayout.scales + place * kBytes.scales;
        if constexpr (kBytes.scales == 1) {
            scales = __ldg(scale);
        } else {
            scales = __ldg(reinterpret_cast<const std::uint16_t*>(scale));
        }
        const std::uint8_t* entry = tile + kLayout.blocks + place / kBlockGroups * kBytes.blocks;
        if constexpr (kBytes.blocks == 2) {
            block = __ldg(reinterpret_cast<const std::uint16_t*>(entry));
        }
        if constexpr (kBytes.blocks == 4) block = __ldg(reinterpret_cast<const unsigned*>(entry));
    }
};

struct Group {
    int codes[8];  // four int8 each
    float scale[2];
    float min;
};

__device__ __forceinline__ float half_bits(unsigned bits) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(bits & 0xffffU)));
}

// Four values of a 16-entry table of bytes (in four registers) for nibbles 0 .. 3 of `nibbles`.
__device__ __forceinline__ int table_quad(const unsigned (&table)[4], unsigned nibbles) {
    const unsigned places = nibbles & 0x7777U;
    const unsigned low = __byte_perm(table[0], table[1], places);
    const unsigned high = __byte_perm(table[2], table[3], places);
    // Byte j comes from `low`, or from `high` where bit 3 of nibble j is set.
    const unsigned chosen = 0x3210U | (nibbles & 0x8888U) >> 1;
    return static_cast<int>(__byte_perm(low, high, chosen));
}

__device__ __forceinline__ void nibble_quads(const uint4& words, int (&out)[8]) {
    const unsigned in[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        out[2 * w] = static_cast<int>(in[w] & 0x0f0f0f0fU);
        out[2 * w + 1] = static_cast<int>(in[w] >> 4 & 0x0f0f0f0fU);
    }
}

__device__ __forceinline__ void table_quads(const uint4& words, const unsigned (&table)[4],
                                            int (&out)[8]) {
    const unsigned in[4] = {words.x, words.y, words.z, words.w};
#pragma unroll
    for (int w = 0; w < 4; ++w) {
        out[2 * w] = table_quad(table, in[w]);
        out[2 * w + 1] = table_quad(table, in[w] >> 16);
    }
}

// -127 -104 -83 -65 -49 -35 -22 -10 1 13 25 38 53 69 89 113, and the doubled E2M1 magnitudes
// 0 1 2 3 4 6 8 12 with their negatives (GGUF block layouts).
__device__ constexpr unsigned kIq4NlTable[4] = {0xbfad9881U, 0xf6eaddcfU, 0x26190d01U, 0x71594535U};
__device__ constexpr unsigned kE2m1Table[4] = {0x03020100U, 0x0c080604U, 0xfdfeff00U, 0xf4f8fafcU};

// 2^(byte - 127) / 2, and UE4M3 / 2: the tables above hold doubled values.
__device__ __forceinline__ float e8m0_half(unsigned byte) {
    // Byte 0 gives 2^-128, which is subnormal.
    return byte == 0   ? __uint_as_float(0x00200000U)
           : byte == 1 ? __uint_as_float(0x00400000U)
                       : __uint_as_float(byte - 1 << 23);
}
__device__ __forceinline__ float ue4m3_half(unsigned byte) {
    const unsigned code = byte & 0x7fU;
    if (code == 0x7fU) return 0.0F;
    const unsigned exponent = code >> 3;
    const float mantissa = static_cast<float>(code & 7U);
    if (exponent == 0) return mantissa * 0x1p-10F;
    return (8.0F + mantissa) * __uint_as_float((exponent + 116U) << 23);  // 2^(exponent - 11)
}

// `grid`: the IQ3_S table; other types do not look at it.
template <ElementType kType>
__device__ __forceinline__ Group decode_group(const RawGroup<kType>& raw,
                                              const std::uint32_t* grid) {
    Group out;
    out.min = 0.0F;
    if constexpr (kType == ElementType::q8_0) {
        const unsigned words[8] = {raw.codes[0].x, raw.codes[0].y, raw.codes[0].z, raw.codes[0].w,
                                   raw.codes[1].x, raw.codes[1].y, raw.codes[1].z, raw.codes[1].w};
#pragma unroll
        for (int q = 0; q < 8; ++q) out.codes[q] = static_cast<int>(words[q]);
        out.scale[0] = out.scale[1] = half_bits(raw.scales);
    } else if constexpr (kType == ElementType::q4_0) {
        nibble_quads(raw.codes[0], out.codes);
        out.scale[0] = out.scale[1] = half_bits(raw.scales);
        out.min = 8.0F * out.scale[0];
    } else if constexpr (kType == ElementType::iq4_nl) {
        table_quads(raw.codes[0], kIq4NlTable, out.codes);
        out.scale[0] = out.scale[1] = half_bits(raw.scales);
    } else if constexpr (kType == ElementType::mxfp4) {
        table_quads(raw.codes[0], kE2m1Table, out.codes);
        out.scale[0] = out.scale[1] = e8m0_half(raw.scales);
    } else if constexpr (kType == ElementType::nvfp4) {
        table_quads(raw.codes[0], kE2m1Table, out.codes);
        out.scale[0] = ue4m3_half(raw.scales & 0xffU);
        out.scale[1] = ue4m3_half(raw.scales >> 8);
    } else if constexpr (kType == ElementType::q4_k || kType == ElementType::q5_k) {
        nibble_quads(raw.codes[0], out.codes);
        if constexpr (kType == ElementType::q5_k) {
#pragma unroll
            for (int q = 0; q < 8; ++q) {
                out.codes[q] |= static_cast<int>((raw.highs.x >> q & 0x01010101U) << 4);
            }
        }
        out.scale[0] = out.scale[1] = half_bits(raw.block) * static_cast<float>(raw.scales & 0xffU);
        out.min = half_bits(raw.block >> 16) * static_cast<float>(raw.scales >> 8);
    } else if constexpr (kType == ElementType::q6_k) {
        nibble_quads(raw.codes[0], out.codes);
        const unsigned highs[2] = {raw.highs.x, raw.highs.y};
#pragma unroll
        for (int q = 0; q < 8; ++q) {
            const unsigned two = (highs[q / 4] >> 2 * (q % 4) & 0x03030303U) << 4;
            // Each byte minus 32, without a borrow from its neighbour.
            const unsigned code = static_cast<unsigned>(out.codes[q]) | two | 0x80808080U;
            out.codes[q] = static_cast<int>(code - 0x20202020U ^ 0x80808080U);
        }
        const float d = half_bits(raw.block);
        out.scale[0] = d * static_cast<float>(static_cast<std::int8_t>(raw.scales & 0xffU));
        out.scale[1] = d * static_cast<float>(static_cast<std::int8_t>(raw.scales >> 8));
    } else if constexpr (kType == ElementType::iq3_s) {
        const unsigned indices[2] = {raw.codes[0].x, raw.codes[0].y};
#pragma unroll
        for (int q = 0; q < 8; ++q) {
            const unsigned index = (indices[q / 4] >> 8 * (q % 4) & 0xffU) | (raw.scales >> q & 1U)
                                                                                 << 8;
            const unsigned signs = raw.highs.x >> 4 * q & 0xfU;
            const unsigned ones = signs * 0x00204081U & 0x01010101U;  // 1 in each negative byte
            out.codes[q] = static_cast<int>((grid[index] ^ ones * 0xffU) + ones);
        }
        out.scale[0] = out.scale[1] = half_bits(raw.block) * static_cast<float>(raw.scales >> 8);
    }
    return out;
}

// Element e of a decoded group, as the file's format defines it.
__device__ __forceinline__ float element_of(const Group& group, int e) {
    const auto code = static_cast<std::int8_t>(group.codes[e / 4] >> 8 * (e % 4) & 0xff);
    return __fsub_rn(__fmul_rn(group.scale[e / 16], static_cast<float>(code)), group.min);
}

// A sum of products that begins at kBiased is the bits of a float: 1.5 * 2^23 + the sum, for sums
// of less than 22 bits. One subtraction instead of a slow conversion.
constexpr int kBiased = 0x4b400000;
__device__ __forceinline__ float unbiased(int sum) {
    return __fsub_rn(__int_as_float(sum), 12582912.0F);
}

[[nodiscard]] constexpr bool has_min(ElementType type) {
    return type == ElementType::q4_0 || type == ElementType::q4_k || type == ElementType::q5_k;
}
// One scale for all 32 elements.
[[nodiscard]] constexpr bool has_one_scale(ElementType type) {
    return type != ElementType::q6_k && type != ElementType::nvfp4;
}

// Four unsigned bytes with four signed ones.
__device__ __forceinline__ int add_unsigned(unsigned a, int b, int sum) {
    int out;
    asm("dp4a.u32.s32 %0, %1, %2, %3;" : "=r"(out) : "r"(a), "r"(b), "r"(sum));
    return out;
}

// sum + scale * products - min * sum of x, as add_product() rounds it.
template <ElementType kType>
__device__ __forceinline__ float add_scaled(float sum, float inner, float min, float2 scaled) {
    sum = __fmaf_rn(inner, scaled.x, sum);
    return has_min(kType) ? __fmaf_rn(-min, scaled.y, sum) : sum;
}

// sum + the product of a group with the same group of x. One fixed order of roundings.
template <ElementType kType>
__device__ __forceinline__ float add_product(float sum, const Group& group, const int4& x0,
                                             const int4& x1, float2 scaled) {
    int first = __dp4a(group.codes[0], x0.x, kBiased);
    first = __dp4a(group.codes[1], x0.y, first);
    first = __dp4a(group.codes[2], x0.z, first);
    first = __dp4a(group.codes[3], x0.w, first);
    int second = __dp4a(group.codes[4], x1.x, has_one_scale(kType) ? first : kBiased);
    second = __dp4a(group.codes[5], x1.y, second);
    second = __dp4a(group.codes[6], x1.z, second);
    second = __dp4a(group.codes[7], x1.w, second);
    if constexpr (has_one_scale(kType)) {
        return add_scaled<kType>(sum, __fmul_rn(group.scale[0], unbiased(second)), group.min,
                                 scaled);
    } else {
        const float inner =
            __fmaf_rn(group.scale[0], unbiased(first), __fmul_rn(group.scale[1], unbiased(second)));
        return add_scaled<kType>(sum, inner, group.min, scaled);
    }
}

// The same for a group that is used once: upper nibbles stay where they are, 16 times as large.
template <ElementType kType>
__device__ __forceinline__ float add_raw_product(float sum, const RawGroup<kType>& raw,
                                                 const int4& x0, const int4& x1, float2 scaled,
                                                 const std::uint32_t* grid) {
    if constexpr (kType == ElementType::q4_k) {
        constexpr unsigned kLower = 0x0f0f0f0fU;
        const uint4& words = raw.codes[0];
        int lower = __dp4a(static_cast<int>(words.x & kLower), x0.x, kBiased);
        lower = __dp4a(static_cast<int>(words.y & kLower), x0.z, lower);
        lower = __dp4a(static_cast<int>(words.z & kLower), x1.x, lower);
        lower = __dp4a(static_cast<int>(words.w & kLower), x1.z, lower);
        int upper = add_unsigned(words.x & ~kLower, x0.y, 0);
        upper = add_unsigned(words.y & ~kLower, x0.w, upper);
        upper = add_unsigned(words.z & ~kLower, x1.y, upper);
        upper = add_unsigned(words.w & ~kLower, x1.w, upper);
        const float scale = half_bits(raw.block) * static_cast<float>(raw.scales & 0xffU);
        const float min = half_bits(raw.block >> 16) * static_cast<float>(raw.scales >> 8);
        const float products = unbiased(lower + (upper >> 4));
        return add_scaled<kType>(sum, __fmul_rn(scale, products), min, scaled);
    } else if constexpr (kType == ElementType::q6_k) {
        // Codes of 0 .. 63 as they are stored; what 32 less of each would give is taken off the
        // sums. Rows that are computed with the same x share its sums.
        const auto half = [](unsigned one, unsigned other, unsigned highs, const int4& x) {
            constexpr unsigned kLow = 0x0f0f0f0fU;
            constexpr unsigned kHigh = 0x30303030U;
            constexpr int kOnes = 0x01010101;
            int ones = __dp4a(x.x, kOnes, __dp4a(x.y, kOnes, 0));
            ones = __dp4a(x.z, kOnes, __dp4a(x.w, kOnes, ones));
            const auto quad = [](unsigned low, unsigned high) {
                return static_cast<int>((low & kLow) | (high & kHigh));
            };
            int inner = __dp4a(quad(one, highs << 4), x.x, kBiased);
            inner = __dp4a(quad(one >> 4, highs << 2), x.y, inner);
            inner = __dp4a(quad(other, highs), x.z, inner);
            inner = __dp4a(quad(other >> 4, highs >> 2), x.w, inner);
            return unbiased(inner - 32 * ones);
        };
        const uint4& words = raw.codes[0];
        const float first = half(words.x, words.y, raw.highs.x, x0);
        const float second = half(words.z, words.w, raw.highs.y, x1);
        // Signed bytes as floats: 2^23 + the byte and 128 more.
        const unsigned scales = raw.scales ^ 0x8080U;
        const auto signed_byte = [&](unsigned which) {
            return __fsub_rn(__uint_as_float(__byte_perm(scales, 0x4b000000U, 0x7440U | which)),
                             8388736.0F);
        };
        const float d = half_bits(raw.block);
        const float inner =
            __fmaf_rn(d * signed_byte(0), first, __fmul_rn(d * signed_byte(1), second));
        return add_scaled<kType>(sum, inner, 0.0F, scaled);
    } else {
        return add_product<kType>(sum, decode_group<kType>(raw, grid), x0, x1, scaled);
    }
}

}  // namespace strata::cuda
