// Every stored format as signed codes with scales (models.md C2), then side by side as lanes.
#include "engine/backend/cpu/code_tile.hpp"

#include <array>
#include <cstring>

#include "engine/backend/cpu/blocks.hpp"
#include "engine/backend/cpu/iq3s_grid.hpp"
#include "engine/backend/cpu/quantise_rows.hpp"

namespace strata {
namespace {

constexpr std::int64_t kBlockElementsMax = 256;
constexpr std::int64_t kScalesMax = kBlockElementsMax / 16;
constexpr std::int64_t kMinsMax = kBlockElementsMax / 32;

// One stored block, taken apart.
struct Codes {
    std::array<std::int8_t, kBlockElementsMax> code;
    std::array<float, kScalesMax> scale;
    std::array<float, kMinsMax> min;
};

int byte_at(const std::byte* from, std::int64_t index) {
    return std::to_integer<int>(from[index]);
}

float half_at(const std::byte* from) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from, sizeof bits);
    return f16_to_f32(bits);
}

// Low nibbles are the first half of `count` elements, high nibbles the second.
template <class ToCode>
void split_nibbles(const std::byte* from, std::int64_t count, std::int8_t* code,
                   const ToCode& to_code) {
    for (std::int64_t j = 0; j < count / 2; ++j) {
        const int both = byte_at(from, j);
        code[j] = static_cast<std::int8_t>(to_code(both & 15));
        code[count / 2 + j] = static_cast<std::int8_t>(to_code(both >> 4));
    }
}

void take_q4_0(const std::byte* block, Codes& out) {
    out.scale[0] = half_at(block);
    split_nibbles(block + 2, 32, out.code.data(), [](int n) { return n - 8; });
}

void take_iq4_nl(const std::byte* block, Codes& out) {
    out.scale[0] = half_at(block);
    split_nibbles(block + 2, 32, out.code.data(),
                  [](int n) { return kIq4NlValues[static_cast<std::size_t>(n)]; });
}

int doubled_e2m1(int n) {
    return kE2m1Doubled[static_cast<std::size_t>(n)];
}

void take_mxfp4(const std::byte* block, Codes& out) {
    out.scale[0] = e8m0_half(std::to_integer<std::uint8_t>(block[0]));
    split_nibbles(block + 1, 32, out.code.data(), doubled_e2m1);
}

void take_nvfp4(const std::byte* block, Codes& out) {
    for (std::int64_t s = 0; s < 4; ++s) {
        out.scale[static_cast<std::size_t>(s)] =
            ue4m3_half(std::to_integer<std::uint8_t>(block[s]));
        split_nibbles(block + 4 + 8 * s, 16, out.code.data() + 16 * s, doubled_e2m1);
    }
}

void take_k_scales(const std::byte* block, Codes& out) {
    const float d = half_at(block);
    const float d_min = half_at(block + 2);
    for (std::int64_t j = 0; j < 8; ++j) {
        const ScaleMin pair = packed_scale_min(block + 4, static_cast<std::size_t>(j));
        out.scale[static_cast<std::size_t>(j)] = d * static_cast<float>(pair.scale);
        out.min[static_cast<std::size_t>(j)] = d_min * static_cast<float>(pair.min);
    }
}

void take_q4_k(const std::byte* block, Codes& out) {
    take_k_scales(block, out);
    for (std::int64_t g = 0; g < 4; ++g) {
        split_nibbles(block + 16 + 32 * g, 64, out.code.data() + 64 * g, [](int n) { return n; });
    }
}

void take_q5_k(const std::byte* block, Codes& out) {
    take_k_scales(block, out);
    const std::byte* high = block + 16;
    for (std::int64_t g = 0; g < 4; ++g) {
        split_nibbles(block + 48 + 32 * g, 64, out.code.data() + 64 * g, [](int n) { return n; });
    }
    for (std::int64_t i = 0; i < 256; ++i) {
        const int bit = byte_at(high, i % 32) >> (i / 32) & 1;
        std::int8_t& code = out.code[static_cast<std::size_t>(i)];
        code = static_cast<std::int8_t>(code + 16 * bit);
    }
}

void take_q6_k(const std::byte* block, Codes& out) {
    const float d = half_at(block + 208);
    for (std::int64_t s = 0; s < 16; ++s) {
        std::int8_t scale = 0;
        std::memcpy(&scale, block + 192 + s, 1);
        out.scale[static_cast<std::size_t>(s)] = d * static_cast<float>(scale);
    }
    for (std::int64_t half = 0; half < 2; ++half) {
        const std::byte* low = block + 64 * half;
        const std::byte* high = block + 128 + 32 * half;
        std::int8_t* code = out.code.data() + 128 * half;
        for (std::int64_t l = 0; l < 32; ++l) {
            const int first = byte_at(low, l);
            const int second = byte_at(low, l + 32);
            const int bits = byte_at(high, l);
            code[l] = static_cast<std::int8_t>(((first & 15) | (bits & 3) << 4) - 32);
            code[l + 32] = static_cast<std::int8_t>(((second & 15) | (bits >> 2 & 3) << 4) - 32);
            code[l + 64] = static_cast<std::int8_t>((first >> 4 | (bits >> 4 & 3) << 4) - 32);
            code[l + 96] = static_cast<std::int8_t>((second >> 4 | (bits >> 6 & 3) << 4) - 32);
        }
    }
}

void take_iq3_s(const std::byte* block, Codes& out) {
    const float d = half_at(block);
    const std::byte* low = block + 2;
    const std::byte* high = block + 66;
    const std::byte* signs = block + 74;
    const std::byte* scales = block + 106;
    for (std::int64_t i = 0; i < 8; ++i) {
        const int nibble = byte_at(scales, i / 2) >> (i % 2 * 4) & 15;
        out.scale[static_cast<std::size_t>(i)] = d * static_cast<float>(1 + 2 * nibble);
        for (std::int64_t l = 0; l < 8; ++l) {
            const int index = byte_at(low, 8 * i + l) | (byte_at(high, i) >> l & 1) << 8;
            const std::uint32_t magnitudes = kIq3sGrid[static_cast<std::size_t>(index)];
            for (std::int64_t j = 0; j < 4; ++j) {
                const std::int64_t element = 4 * l + j;
                const int magnitude = static_cast<int>(magnitudes >> (8 * j) & 0xFFU);
                const bool negative =
                    (byte_at(signs, 4 * i + element / 8) >> (element % 8) & 1) != 0;
                out.code[static_cast<std::size_t>(32 * i + element)] =
                    static_cast<std::int8_t>(negative ? -magnitude : magnitude);
            }
        }
    }
}

void take_q8_0(const std::byte* block, Codes& out) {
    out.scale[0] = half_at(block);
    std::memcpy(out.code.data(), block + 2, 32);
}

using TakeBlock = void (*)(const std::byte* block, Codes& out);

// How a type is taken apart. Types of whole numbers of f32 per element have no codes.
struct Format {
    TakeBlock take = nullptr;
    std::int64_t group = 32;  // elements of one scale
    bool has_mins = false;
};

Format format_of(ElementType type) {
    switch (type) {
        case ElementType::q8_0:
            return {take_q8_0, 32, false};
        case ElementType::q4_0:
            return {take_q4_0, 32, false};
        case ElementType::q4_k:
            return {take_q4_k, 32, true};
        case ElementType::q5_k:
            return {take_q5_k, 32, true};
        case ElementType::q6_k:
            return {take_q6_k, 16, false};
        case ElementType::iq4_nl:
            return {take_iq4_nl, 32, false};
        case ElementType::iq3_s:
            return {take_iq3_s, 32, false};
        case ElementType::mxfp4:
            return {take_mxfp4, 32, false};
        case ElementType::nvfp4:
            return {take_nvfp4, 16, false};
        case ElementType::f32:
        case ElementType::f16:
        case ElementType::bf16:
            break;
    }
    return {};
}

// Four consecutive codes of one lane, made unsigned.
void place_codes(const std::int8_t* code, std::int64_t count, std::int64_t lane,
                 std::uint8_t* lanes) {
    for (std::int64_t k = 0; k < count; k += 4) {
        std::uint32_t four = 0;
        std::memcpy(&four, code + k, sizeof four);
        four ^= 0x80808080U;
        std::memcpy(lanes + (k / 4 * kTileRows + lane) * 4, &four, sizeof four);
    }
}

void clear_lane(std::int64_t lane, std::int64_t cols, const CodeTile& tile) {
    constexpr std::uint32_t kZeros = 0x80808080U;
    for (std::int64_t k = 0; k < cols; k += 4) {
        std::memcpy(tile.codes + (k / 4 * kTileRows + lane) * 4, &kZeros, sizeof kZeros);
    }
    for (std::int64_t s = 0; s < cols / tile.group; ++s) tile.scales[s * kTileRows + lane] = 0.0F;
    if (tile.mins == nullptr) return;
    for (std::int64_t b = 0; b < cols / kQ8Block; ++b) tile.mins[b * kTileRows + lane] = 0.0F;
}

}  // namespace

std::size_t code_tile_bytes(std::int64_t cols) {
    const auto codes = static_cast<std::size_t>(cols * kTileRows);
    return codes + codes / 16 * sizeof(float) + codes / 32 * sizeof(float);
}

CodeTile place_code_tile(ElementType type, std::int64_t cols, std::byte* memory) {
    const Format format = format_of(type);
    const auto codes = static_cast<std::size_t>(cols * kTileRows);
    CodeTile tile;
    tile.codes = reinterpret_cast<std::uint8_t*>(memory);
    tile.scales = reinterpret_cast<float*>(memory + codes);
    tile.group = format.group;
    if (format.has_mins)
        tile.mins = reinterpret_cast<float*>(memory + codes + codes / 16 * sizeof(float));
    return tile;
}

void decode_code_tile(ElementType type, const std::byte* first_row, std::size_t row_bytes,
                      std::int64_t rows, std::int64_t cols, const CodeTile& tile) {
    const Format format = format_of(type);
    const BlockShape shape = block_shape(type);
    const auto elements = static_cast<std::int64_t>(shape.elements);
    Codes codes;
    for (std::int64_t lane = 0; lane < rows; ++lane) {
        const std::byte* block = first_row + static_cast<std::size_t>(lane) * row_bytes;
        for (std::int64_t k = 0; k < cols; k += elements, block += shape.bytes) {
            format.take(block, codes);
            place_codes(codes.code.data(), elements, lane, tile.codes + k * kTileRows);
            for (std::int64_t s = 0; s < elements / tile.group; ++s) {
                tile.scales[(k / tile.group + s) * kTileRows + lane] =
                    codes.scale[static_cast<std::size_t>(s)];
            }
            for (std::int64_t b = 0; tile.mins != nullptr && b < elements / kQ8Block; ++b) {
                tile.mins[(k / kQ8Block + b) * kTileRows + lane] =
                    codes.min[static_cast<std::size_t>(b)];
            }
        }
    }
    for (std::int64_t lane = rows; lane < kTileRows; ++lane) clear_lane(lane, cols, tile);
}

}  // namespace strata
