// Stored blocks of every quantised type as one common form: integer codes in the lane layout of
// packed_weight.hpp, an f32 scale per 32 or 16 elements, and an f32 minimum per 32 where the type
// has one. Exact: code * scale - minimum is the value that decode_blocks() gives, up to one f32
// rounding. Owns the formats' second decoder; sums are kernels_*.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/cpu/kernels.hpp"
#include "strata/backend/tensor.hpp"

namespace strata {

// Bytes that one decoded tile of `cols` columns takes, whatever the type.
[[nodiscard]] std::size_t code_tile_bytes(std::int64_t cols);

// Lays a tile for weights of `type` out over `memory` (kCacheLineBytes aligned, code_tile_bytes
// long).
[[nodiscard]] CodeTile place_code_tile(ElementType type, std::int64_t cols, std::byte* memory);

// Decodes `rows` (1 to 16) stored rows, `row_bytes` apart, into the tile; other lanes become zero.
void decode_code_tile(ElementType type, const std::byte* first_row, std::size_t row_bytes,
                      std::int64_t rows, std::int64_t cols, const CodeTile& tile);

}  // namespace strata
