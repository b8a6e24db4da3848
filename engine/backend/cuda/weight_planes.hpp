// The layout of a quantised weight on the device: each kind of its bits in a plane of its own, so
// that a warp's loads are whole lines whatever the file's block size is, and the planes cut into
// tiles, so that a piece of a row is one run of bytes. The bits are the file's.
//
// The unit is the group: 32 elements of a row, group g of a weight being (expert * rows + row) *
// (cols / 32) + column / 32. Tile g / 32 holds it: the planes of 32 groups one after another, see
// tile_layout(). Plane bytes of a group: see plane_bytes(); `blocks` has one entry for 8 groups.
// Order of codes inside a group is kernels/weight_groups.cuh.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/backend/tensor.hpp"

namespace strata::cuda {

constexpr int kGroupElements = 32;
constexpr int kBlockGroups = 8;  // groups that share an entry of `blocks`

struct PlaneBytes {
    int codes;   // low bits of the codes
    int highs;   // what is above 4 bits, or signs
    int scales;  // of the group
    int blocks;  // of 8 groups
};
[[nodiscard]] constexpr PlaneBytes plane_bytes(ElementType type) {
    switch (type) {
        case ElementType::q8_0:
            return {32, 0, 2, 0};
        case ElementType::q4_0:
        case ElementType::iq4_nl:
        case ElementType::nvfp4:
            return {16, 0, 2, 0};
        case ElementType::mxfp4:
            return {16, 0, 1, 0};
        case ElementType::q4_k:
            return {16, 0, 2, 4};
        case ElementType::q5_k:
            return {16, 4, 2, 4};
        case ElementType::q6_k:
            return {16, 8, 2, 2};
        case ElementType::iq3_s:
            return {8, 4, 2, 2};
        case ElementType::f32:
        case ElementType::f16:
        case ElementType::bf16:
            break;
    }
    return {0, 0, 0, 0};
}

constexpr int kTileGroups = 32;     // a warp's lanes take a group each
constexpr int kTileAlignment = 16;  // of a lane's widest load

// Where the planes begin in a tile, codes at 0, and a tile's bytes.
struct TileLayout {
    int highs;
    int scales;
    int blocks;
    int bytes;
};
[[nodiscard]] constexpr TileLayout tile_layout(ElementType type) {
    const PlaneBytes of = plane_bytes(type);
    TileLayout out{};
    out.highs = kTileGroups * of.codes;
    out.scales = out.highs + kTileGroups * of.highs;
    out.blocks = out.scales + kTileGroups * of.scales;
    const int end = out.blocks + kTileGroups / kBlockGroups * of.blocks;
    out.bytes = (end + kTileAlignment - 1) / kTileAlignment * kTileAlignment;
    return out;
}

// Where a weight lies: its tiles, or the matrix of a float weight as the file has it.
struct Planes {
    std::uint8_t* codes = nullptr;
};

[[nodiscard]] constexpr bool is_float(ElementType type) {
    return type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16;
}

}  // namespace strata::cuda
