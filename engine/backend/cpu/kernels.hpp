// The inner loops of a product, one set per instruction set, and the layout of the quantised
// activations that they read. Owns no policy: which rows and tiles a call covers is decided in
// matmul.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/cpu/isa.hpp"
#include "strata/backend/tensor.hpp"

namespace strata {

inline constexpr std::int64_t kTileRows = 16;  // output rows side by side: packed_weight.hpp
inline constexpr std::int64_t kQ8Block = 32;   // elements that share one activation scale

// A quantised row of x: codes, then per block of 32 the scale, the start value of the integer sum,
// the start values of its two halves, and scale * sum of codes. Codes of weights are stored plus
// 128, so a sum over them starts at -128 * (sum of the activation's codes).
struct ActivationLayout {
    std::size_t scales = 0;         // offset of f32[blocks]
    std::size_t starts = 0;         // offset of i32[blocks]
    std::size_t half_starts = 0;    // offset of i32[2 * blocks]
    std::size_t weighted_sums = 0;  // offset of f32[blocks]
    std::size_t row_bytes = 0;
};
[[nodiscard]] ActivationLayout activation_layout(std::int64_t cols);

// A block of 32 elements of 16 rows of a weight with codes, taken apart: integers and scales that
// every type shares. code - 128 times scale, less the minimum, is the value.
struct alignas(64) CodeBlock {
    std::uint8_t codes[8 * 16 * 4];  // 8 groups x 16 rows x 4 elements
    float scales[2 * 16];  // of 16 rows; of their second halves where those have their own
    float minimums[16];    // of 16 rows, where the type has them
};

// Takes block `block` of the group at `group` apart (code_lanes.hpp). What a type does not have,
// second scales or minimums, is left as it is or set to anything.
using UnpackBlock = void (*)(const std::byte* group, std::int64_t block, CodeBlock& out);

// Consecutive tiles times a list of rows.
struct TileRun {
    ElementType type = ElementType::f32;
    const std::byte* tiles = nullptr;
    std::size_t tile_bytes = 0;
    std::int64_t rows = 0;  // output rows from the first tile on; the last tile may be short
    std::int64_t cols = 0;
    const std::byte* const* x = nullptr;  // tokens rows: f32 values or quantised rows
    float* const* y = nullptr;            // tokens rows of the output
    std::int64_t first_row = 0;           // index in y of the first tile's first row
    std::int64_t tokens = 0;
    const float* bias = nullptr;  // of the first tile's first row on; null = none
    float scale = 1.0F;           // Weight::scale
    bool accumulate = false;
    CodeBlock* decoded = nullptr;  // scratch of lanes_codes: cols / 32 blocks
};

struct Kernels {
    void (*lanes_f32)(const TileRun& run);
    void (*lanes_f16)(const TileRun& run);
    void (*lanes_bf16)(const TileRun& run);
    void (*lanes_q8)(const TileRun& run);
    void (*lanes_codes)(const TileRun& run);
    // How lanes_codes takes blocks of `type` apart.
    UnpackBlock (*unpack_of)(ElementType type);
    // Rounds `cols` values to a quantised row (layout above).
    void (*quantise_row)(const float* x, std::int64_t cols, std::byte* row);
};
[[nodiscard]] const Kernels& kernels(Isa isa);

// Each instruction set's own table; call only through kernels().
const Kernels& kernels_scalar();
const Kernels& kernels_avx2();
const Kernels& kernels_avx512();

}  // namespace strata
