// Weights of every block type but Q8_0 as the kernels keep them: the stored bits in another order,
// 16 rows side by side, about as many bytes as the file has. Owns that order: how it is written
// from stored blocks, how one row is read back, and the portable way to take one block apart. The
// fast ways are unpack_*.cpp, sums are kernels_*.cpp.
//
// A tile is a row of groups: a header (scales that 256 elements share), then `blocks` blocks of 32
// elements. In a block, code number k of a row is
//   low four bits   nibble plane, 4 vectors of 64 bytes: byte (k / 4 % 4) * 64 + row * 4 + k % 4,
//   low
//                   nibble for k < 16, high nibble for k >= 16
//   bit 4           Q5_K: one vector, byte row * 4 + k % 4, bit k / 4
//   bits 4 and 5    Q6_K: two vectors (k < 16, k >= 16), byte row * 4 + k % 4, bits 2 * (k / 4 % 4)
// IQ3_S has instead 9-bit indices, one for 4 elements: low bytes [8][16 rows], the ninth bits as
// u16[8] (bit = row), signs as u64[8] (bit = row * 4 + k % 4). Then come the scale bytes of 16
// rows, and of 16 rows again for the second half-block or for the minimums.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/cpu/kernels.hpp"
#include "strata/backend/tensor.hpp"

namespace strata {

// Sizes and offsets in bytes; group = header + blocks.
struct CodeLayout {
    std::int64_t blocks = 1;
    std::size_t header_bytes = 0;
    std::size_t block_bytes = 0;
    std::size_t high_offset = 0;    // of the plane of high bits in a block
    std::size_t scale_offset = 0;   // of the scales in a block
    std::size_t second_offset = 0;  // of the minimums, or of the second half's scales
    bool half_scales = false;       // a scale per 16 elements instead of 32
    bool minimums = false;

    std::size_t group_bytes() const {
        return header_bytes + static_cast<std::size_t>(blocks) * block_bytes;
    }
    std::size_t tile_bytes(std::int64_t cols) const {
        return static_cast<std::size_t>(cols / kQ8Block / blocks) * group_bytes();
    }
};
// Precondition: a block type other than q8_0.
[[nodiscard]] CodeLayout code_layout(ElementType type);

// Writes one stored row into lane `lane` of a zeroed tile.
void pack_code_row(ElementType type, const std::byte* row, std::int64_t cols, std::int64_t lane,
                   std::byte* tile);

// Reads lane `lane` back: the values decode_blocks() gives for the stored row, bit for bit.
void decode_code_lane(ElementType type, const std::byte* tile, std::int64_t cols, std::int64_t lane,
                      float* out);

// Each instruction set's way to take blocks of a type apart; call only through Kernels.
[[nodiscard]] UnpackBlock unpack_of_scalar(ElementType type);
[[nodiscard]] UnpackBlock unpack_of_avx2(ElementType type);
[[nodiscard]] UnpackBlock unpack_of_avx512(ElementType type);

// What each nibble of a type stands for, plus 128.
struct NibbleTable {
    std::uint8_t value[16];
};
inline constexpr NibbleTable kNibblePlain = {
    {128, 129, 130, 131, 132, 133, 134, 135, 136, 137, 138, 139, 140, 141, 142, 143}};
inline constexpr NibbleTable kNibbleLess8 = {
    {120, 121, 122, 123, 124, 125, 126, 127, 128, 129, 130, 131, 132, 133, 134, 135}};
inline constexpr NibbleTable kNibbleLess32 = {
    {96, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108, 109, 110, 111}};
inline constexpr NibbleTable kNibbleIq4Nl = {
    {1, 24, 45, 63, 79, 93, 106, 118, 129, 141, 153, 166, 181, 197, 217, 241}};
inline constexpr NibbleTable kNibbleE2m1 = {
    {128, 129, 130, 131, 132, 134, 136, 140, 128, 127, 126, 125, 124, 122, 120, 116}};

// Offsets within an IQ3_S block, and the format's table of 512 quadruples: for the fast ways above.
inline constexpr std::size_t kIq3sHighBits = 128;
inline constexpr std::size_t kIq3sSigns = 144;
inline constexpr std::size_t kIq3sScales = 208;
[[nodiscard]] const std::uint32_t* iq3s_table();

}  // namespace strata
