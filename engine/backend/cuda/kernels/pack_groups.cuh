// From the file's blocks to tiles: one thread per group (GGUF block layouts).
#pragma once

#include "engine/backend/cuda/launch/launch.cuh"
#include "engine/backend/cuda/weight_planes.hpp"
#include "strata/backend/tensor.hpp"

namespace strata::cuda {

// Scale and min of sub-block j of a Q4_K or Q5_K block: 6 bits each, packed in 12 bytes.
__device__ __forceinline__ std::uint16_t packed_scale_min(const std::uint8_t* q, int j) {
    unsigned scale = q[j] & 63U;
    unsigned min = q[j + 4] & 63U;
    if (j >= 4) {
        scale = (q[j + 4] & 15U) | q[j - 4] >> 6 << 4;
        min = q[j + 4] >> 4 | q[j] >> 6 << 4;
    }
    return static_cast<std::uint16_t>(scale | min << 8);
}

// The 4-bit part of element e's code. `block` is the file's block that the group lies in, `sub` the
// group's number in it.
template <ElementType kType>
__device__ __forceinline__ unsigned stored_nibble(const std::uint8_t* block, int sub, int e) {
    if constexpr (kType == ElementType::q4_0 || kType == ElementType::iq4_nl) {
        return e < 16 ? block[2 + e] & 15U : block[2 + e - 16] >> 4;
    } else if constexpr (kType == ElementType::mxfp4) {
        return e < 16 ? block[1 + e] & 15U : block[1 + e - 16] >> 4;
    } else if constexpr (kType == ElementType::nvfp4) {
        const unsigned byte = block[4 + (sub * 2 + e / 16) * 8 + e % 8];
        return e % 16 < 8 ? byte & 15U : byte >> 4;
    } else if constexpr (kType == ElementType::q4_k || kType == ElementType::q5_k) {
        const unsigned byte = block[(kType == ElementType::q4_k ? 16 : 48) + sub / 2 * 32 + e];
        return sub % 2 == 0 ? byte & 15U : byte >> 4;
    } else {
        static_assert(kType == ElementType::q6_k);
        const unsigned byte = block[sub / 4 * 64 + sub % 2 * 32 + e];
        return sub % 4 < 2 ? byte & 15U : byte >> 4;
    }
}

template <ElementType kType>
__device__ __forceinline__ void pack_nibbles(const std::uint8_t* block, int sub,
                                             std::uint8_t* codes) {
    constexpr bool kInOrder =
        kType == ElementType::iq4_nl || kType == ElementType::mxfp4 || kType == ElementType::nvfp4;
    for (int i = 0; i < 16; ++i) {
        const int low = kInOrder ? 2 * i : i / 4 * 8 + i % 4;
        const int high = kInOrder ? 2 * i + 1 : low + 4;
        codes[i] = static_cast<std::uint8_t>(stored_nibble<kType>(block, sub, low) |
                                             stored_nibble<kType>(block, sub, high) << 4);
    }
}

template <ElementType kType>
__device__ __forceinline__ void pack_highs(const std::uint8_t* block, int sub,
                                           std::uint8_t* highs) {
    if constexpr (kType == ElementType::q5_k) {
        for (int j = 0; j < 4; ++j) {
            unsigned bits = 0;
            for (int q = 0; q < 8; ++q) bits |= (block[16 + 4 * q + j] >> sub & 1U) << q;
            highs[j] = static_cast<std::uint8_t>(bits);
        }
    }
    if constexpr (kType == ElementType::q6_k) {
        const std::uint8_t* stored = block + 128 + sub / 4 * 32;
        for (int i = 0; i < 8; ++i) {
            unsigned bits = 0;
            for (int q = 0; q < 4; ++q) {
                const int e = (i / 4 * 4 + q) * 4 + i % 4;
                bits |= (stored[e] >> 2 * (sub % 4) & 3U) << 2 * q;
            }
            highs[i] = static_cast<std::uint8_t>(bits);
        }
    }
    if constexpr (kType == ElementType::iq3_s) {
        for (int i = 0; i < 4; ++i) highs[i] = block[74 + sub * 4 + i];
    }
}

__device__ __forceinline__ void copy_bytes(std::uint8_t* to, const std::uint8_t* from, int count) {
    for (int i = 0; i < count; ++i) to[i] = from[i];
}

template <ElementType kType>
__device__ __forceinline__ void pack_scales(const std::uint8_t* block, int sub,
                                            std::uint8_t* scales) {
    if constexpr (kType == ElementType::q8_0 || kType == ElementType::q4_0 ||
                  kType == ElementType::iq4_nl) {
        copy_bytes(scales, block, 2);
    } else if constexpr (kType == ElementType::mxfp4) {
        scales[0] = block[0];
    } else if constexpr (kType == ElementType::nvfp4) {
        copy_bytes(scales, block + sub * 2, 2);
    } else if constexpr (kType == ElementType::q4_k || kType == ElementType::q5_k) {
        const std::uint16_t both = packed_scale_min(block + 4, sub);
        scales[0] = static_cast<std::uint8_t>(both & 255U);
        scales[1] = static_cast<std::uint8_t>(both >> 8);
    } else if constexpr (kType == ElementType::q6_k) {
        copy_bytes(scales, block + 192 + sub / 4 * 8 + sub % 4 * 2, 2);
    } else {
        static_assert(kType == ElementType::iq3_s);
        const unsigned pair = block[106 + sub / 2];
        scales[0] = block[66 + sub];
        scales[1] = static_cast<std::uint8_t>(1U + 2U * (sub % 2 == 0 ? pair & 15U : pair >> 4));
    }
}

// `stored`: the blocks of groups first .. first + count - 1, of which the first begins a block.
template <ElementType kType>
__global__ void pack_kernel(const std::uint8_t* stored, std::int64_t first, std::int64_t count,
                            Planes planes) {
    wait_for_previous();
    const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (at >= count) return;
    constexpr BlockShape kShape = block_shape(kType);
    constexpr int kSubs = static_cast<int>(kShape.elements) / kGroupElements;
    constexpr PlaneBytes kBytes = plane_bytes(kType);
    const std::uint8_t* block = stored + at / kSubs * static_cast<std::int64_t>(kShape.bytes);
    const int sub = static_cast<int>(at % kSubs);
    const std::int64_t group = first + at;
    constexpr TileLayout kLayout = tile_layout(kType);
    std::uint8_t* tile = planes.codes + group / kTileGroups * kLayout.bytes;
    const int place = static_cast<int>(group % kTileGroups);
    std::uint8_t* codes = tile + place * kBytes.codes;
    if constexpr (kType == ElementType::q8_0) {
        copy_bytes(codes, block + 2, 32);
    } else if constexpr (kType == ElementType::iq3_s) {
        copy_bytes(codes, block + 2 + sub * 8, 8);
    } else {
        pack_nibbles<kType>(block, sub, codes);
    }
    pack_highs<kType>(block, sub, tile + kLayout.highs + place * kBytes.highs);
    pack_scales<kType>(block, sub, tile + kLayout.scales + place * kBytes.scales);
    if constexpr (kBytes.blocks > 0) {
        const int offset = kType == ElementType::q6_k ? 208 : 0;
        if (sub == 0) {
            copy_bytes(tile + kLayout.blocks + place / kBlockGroups * kBytes.blocks, block + offset,
                       kBytes.blocks);
        }
    }
}

}  // namespace strata::cuda
