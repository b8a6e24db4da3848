// Scalar decoding of every stored element type to f32: the definition of the formats that all
// kernels are compared with. Written for reading; speed is the kernels' business.
//
// Layouts: GGUF block formats as ggml defines them, little-endian. Values are exact in the sense
// that each is computed by the format's own f32 steps (scale product first, then code, then
// minimum), so they equal another implementation's bit for bit.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "strata/backend/tensor.hpp"

namespace strata {

// IEEE binary16 to f32: exact, subnormals, infinities and NaNs included.
[[nodiscard]] float f16_to_f32(std::uint16_t bits);
// To the nearest binary16, ties to even; too large becomes infinity, NaN stays a quiet NaN.
[[nodiscard]] std::uint16_t f32_to_f16(float value);
[[nodiscard]] float bf16_to_f32(std::uint16_t bits);
// To the nearest bfloat16, ties to even; NaN stays a quiet NaN.
[[nodiscard]] std::uint16_t f32_to_bf16(float value);

// Decodes `elements` contiguous elements, a whole number of blocks, into `out`. NVFP4 without its
// tensor's companion scale.
void decode_blocks(ElementType type, const std::byte* stored, std::size_t elements, float* out);

// The 16 values that an IQ4_NL code stands for.
inline constexpr std::array<std::int8_t, 16> kIq4NlValues = {
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
// The 16 values of E2M1 (sign, 2 exponent bits, 1 mantissa bit), doubled to be integers.
inline constexpr std::array<std::int8_t, 16> kE2m1Doubled = {0, 1,  2,  3,  4,  6,  8,  12,
                                                             0, -1, -2, -3, -4, -6, -8, -12};
// Half the scale that a byte stands for, to go with kE2m1Doubled. E8M0: 2^(byte - 127).
[[nodiscard]] float e8m0_half(std::uint8_t byte);
// UE4M3: 4 exponent bits (bias 7), 3 mantissa bits; 0 and 0x7F are zero, bit 7 is not used.
[[nodiscard]] float ue4m3_half(std::uint8_t byte);

// Scale and minimum codes of sub-block j (0 to 7) in the 12 packed bytes of a Q4_K or Q5_K block.
struct ScaleMin {
    std::uint8_t scale;
    std::uint8_t min;
};
[[nodiscard]] ScaleMin packed_scale_min(const std::byte* packed, std::size_t j);

}  // namespace strata
