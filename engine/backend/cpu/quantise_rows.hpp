// Activations to int8: the rounding that every instruction set must do alike.
//   largest = max |x| of 32 values; scale = largest / 127; code = round to nearest even of x * 127
//   / largest.
// A block with a NaN or an infinity gets the scale NaN and codes 0, so that its row of every
// product is NaN. Owns the layout of a quantised row (kernels.hpp describes it).
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/cpu/kernels.hpp"

namespace strata {

inline constexpr float kCodeMax = 127.0F;  // codes are symmetric: -127 .. 127
inline constexpr std::int32_t kWeightCodeBias = 128;

// The part of a quantised row that its codes and one scale per block determine.
void finish_block(std::byte* row, const ActivationLayout& layout, std::int64_t block, float scale,
                  std::int32_t first_half_sum, std::int32_t second_half_sum);

// Portable rounding of one row.
void quantise_row_scalar(const float* x, std::int64_t cols, std::byte* row);

}  // namespace strata
