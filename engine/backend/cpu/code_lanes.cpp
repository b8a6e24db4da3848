// The order of codes (code_lanes.hpp), type by type, from the stored formats of DETAILS.md, Block
// layouts.
#include "engine/backend/cpu/code_lanes.hpp"

#include <array>
#include <cstring>

#include "engine/backend/cpu/blocks.hpp"
#include "strata/backend/iq3s_grid.hpp"
#include "strata/core/invariant.hpp"

namespace strata {
namespace {

constexpr std::size_t kLanes = static_cast<std::size_t>(kTileRows);
constexpr std::size_t kBlock = static_cast<std::size_t>(kQ8Block);
constexpr std::size_t kVector = 64;            // bytes: four codes of 16 rows
constexpr std::size_t kNibbles = 4 * kVector;  // bytes of the nibble plane of a block
constexpr std::size_t kStoredElementsMax = 256;
constexpr int kBias = 128;

unsigned byte_at(const std::byte* from, std::size_t index) {
    return std::to_integer<unsigned>(from[index]);
}

template <class Word>
Word word_at(const std::byte* from, std::size_t index) {
    Word word{};
    std::memcpy(&word, from + index * sizeof word, sizeof word);
    return word;
}

void set_bits(std::byte* to, std::size_t index, unsigned bits) {
    to[index] |= static_cast<std::byte>(bits);
}

// ---- stored blocks to raw codes (unsigned, as stored) ----

// `count` elements: low nibbles are the first half, high nibbles the second.
void split_nibbles(const std::byte* from, std::size_t count, std::uint8_t* code) {
    for (std::size_t j = 0; j < count / 2; ++j) {
        code[j] = static_cast<std::uint8_t>(byte_at(from, j) & 15U);
        code[count / 2 + j] = static_cast<std::uint8_t>(byte_at(from, j) >> 4);
    }
}

using RawCodes = std::array<std::uint8_t, kStoredElementsMax>;

void raw_k_nibbles(const std::byte* from, RawCodes& code) {
    for (std::size_t g = 0; g < 4; ++g) split_nibbles(from + 32 * g, 64, code.data() + 64 * g);
}

void raw_q5_k(const std::byte* block, RawCodes& code) {
    raw_k_nibbles(block + 48, code);
    for (std::size_t i = 0; i < 256; ++i) {
        const unsigned bit = byte_at(block + 16, i % 32) >> (i / 32) & 1U;
        code[i] = static_cast<std::uint8_t>(code[i] | bit << 4);
    }
}

void raw_q6_k(const std::byte* block, RawCodes& code) {
    for (std::size_t i = 0; i < 256; ++i) {
        const std::size_t half = i / 128;
        const std::size_t quarter = i % 128 / 32;
        const std::size_t l = i % 32;
        const unsigned low =
            byte_at(block + 64 * half, l + quarter % 2 * 32) >> (quarter / 2 * 4) & 15U;
        const unsigned high = byte_at(block + 128 + 32 * half, l) >> (2 * quarter) & 3U;
        code[i] = static_cast<std::uint8_t>(low | high << 4);
    }
}

void raw_codes(ElementType type, const std::byte* block, RawCodes& code) {
    if (type == ElementType::mxfp4) {
        split_nibbles(block + 1, 32, code.data());
    } else if (type == ElementType::nvfp4) {
        for (std::size_t s = 0; s < 4; ++s)
            split_nibbles(block + 4 + 8 * s, 16, code.data() + 16 * s);
    } else if (type == ElementType::q4_k) {
        raw_k_nibbles(block + 16, code);
    } else if (type == ElementType::q5_k) {
        raw_q5_k(block, code);
    } else if (type == ElementType::q6_k) {
        raw_q6_k(block, code);
    } else {
        split_nibbles(block + 2, 32, code.data());
    }
}

// ---- one row into its lane ----

// The 32 raw codes of one block.
void place_codes(ElementType type, const std::uint8_t* code, std::size_t lane,
                 const CodeLayout& layout, std::byte* block) {
    for (std::size_t k = 0; k < kBlock / 2; ++k) {
        const unsigned both = (code[k] & 15U) | (code[k + kBlock / 2] & 15U) << 4;
        block[k / 4 * kVector + lane * 4 + k % 4] = static_cast<std::byte>(both);
    }
    std::byte* high = block + layout.high_offset + lane * 4;
    for (std::size_t i = 0; i < 4; ++i) {
        if (type == ElementType::q5_k) {
            unsigned bits = 0;
            for (std::size_t g = 0; g < 8; ++g) bits |= (code[4 * g + i] >> 4 & 1U) << g;
            high[i] = static_cast<std::byte>(bits);
        } else if (type == ElementType::q6_k) {
            unsigned first = 0;
            unsigned second = 0;
            for (std::size_t g = 0; g < 4; ++g) {
                first |= (code[4 * g + i] >> 4 & 3U) << (2 * g);
                second |= (code[16 + 4 * g + i] >> 4 & 3U) << (2 * g);
            }
            high[i] = static_cast<std::byte>(first);
            high[kVector + i] = static_cast<std::byte>(second);
        }
    }
}

// Scales of stored block `stored`, for its 32-element block number `b`.
void place_scales(ElementType type, const std::byte* stored, std::size_t b, std::size_t lane,
                  const CodeLayout& layout, std::byte* block) {
    std::byte* scales = block + layout.scale_offset;
    std::byte* second = block + layout.second_offset;
    if (type == ElementType::mxfp4) {
        scales[lane] = stored[0];
    } else if (type == ElementType::nvfp4) {
        scales[lane] = stored[2 * b];
        second[lane] = stored[2 * b + 1];
    } else if (type == ElementType::q4_k || type == ElementType::q5_k) {
        const ScaleMin pair = packed_scale_min(stored + 4, b);
        scales[lane] = static_cast<std::byte>(pair.scale);
        second[lane] = static_cast<std::byte>(pair.min);
    } else if (type == ElementType::q6_k) {
        scales[lane] = stored[192 + 2 * b];
        second[lane] = stored[192 + 2 * b + 1];
    } else if (type == ElementType::iq3_s) {
        scales[lane] = static_cast<std::byte>(byte_at(stored, 106 + b / 2) >> (b % 2 * 4) & 15U);
    } else {
        std::memcpy(scales + 2 * lane, stored, 2);
    }
}

void place_header(ElementType type, const std::byte* stored, std::size_t lane, std::byte* header) {
    if (type == ElementType::q4_k || type == ElementType::q5_k) {
        std::memcpy(header + 2 * lane, stored, 2);
        std::memcpy(header + 2 * kLanes + 2 * lane, stored + 2, 2);
    } else if (type == ElementType::q6_k) {
        std::memcpy(header + 2 * lane, stored + 208, 2);
    } else if (type == ElementType::iq3_s) {
        std::memcpy(header + 2 * lane, stored, 2);
    }
}

void place_iq3s_block(const std::byte* stored, std::size_t b, std::size_t lane, std::byte* block) {
    for (std::size_t l = 0; l < 8; ++l) {
        block[l * kLanes + lane] = stored[2 + 8 * b + l];
        const unsigned high = byte_at(stored, 66 + b) >> l & 1U;
        set_bits(block + kIq3sHighBits, 2 * l + lane / 8, high << (lane % 8));
        const unsigned signs = byte_at(stored, 74 + 4 * b + l / 2) >> (l % 2 * 4) & 15U;
        set_bits(block + kIq3sSigns, 8 * l + lane / 2, signs << (lane % 2 * 4));
    }
}

// ---- a block back to codes and scales ----

std::uint8_t with_bias(int code) {
    return static_cast<std::uint8_t>(code + kBias);
}

// What a raw code of a type without index tables stands for.
int code_value(ElementType type, unsigned raw) {
    switch (type) {
        case ElementType::q4_0:
            return static_cast<int>(raw) - 8;
        case ElementType::q6_k:
            return static_cast<int>(raw) - 32;
        case ElementType::iq4_nl:
            return kIq4NlValues[raw];
        case ElementType::mxfp4:
        case ElementType::nvfp4:
            return kE2m1Doubled[raw];
        case ElementType::q4_k:
        case ElementType::q5_k:
        case ElementType::iq3_s:
        case ElementType::q8_0:
        case ElementType::f32:
        case ElementType::f16:
        case ElementType::bf16:
            break;
    }
    return static_cast<int>(raw);
}

int iq3s_code(const std::byte* block, std::size_t k, std::size_t lane) {
    const std::size_t group = k / 4;
    const unsigned high = word_at<std::uint16_t>(block + kIq3sHighBits, group) >> lane & 1U;
    const unsigned index = byte_at(block, group * kLanes + lane) | high << 8;
    const auto magnitude = static_cast<int>(kIq3sGrid[index] >> (8 * (k % 4)) & 0xFFU);
    const bool negative =
        (word_at<std::uint64_t>(block + kIq3sSigns, group) >> (lane * 4 + k % 4) & 1U) != 0;
    return negative ? -magnitude : magnitude;
}

int code_at(ElementType type, const CodeLayout& layout, const std::byte* block, std::size_t k,
            std::size_t lane) {
    if (type == ElementType::iq3_s) return iq3s_code(block, k, lane);
    const std::size_t group = k / 4;
    const std::size_t byte = lane * 4 + k % 4;
    unsigned raw = byte_at(block, group % 4 * kVector + byte) >> (group / 4 * 4) & 15U;
    if (type == ElementType::q5_k) {
        raw |= (byte_at(block + layout.high_offset, byte) >> group & 1U) << 4;
    } else if (type == ElementType::q6_k) {
        const unsigned high = byte_at(block + layout.high_offset, group / 4 * kVector + byte);
        raw |= (high >> (2 * (group % 4)) & 3U) << 4;
    }
    return code_value(type, raw);
}

struct Scales {
    float first = 0;
    float second = 0;  // of the second half, where there is one
    float minimum = 0;
};

Scales scales_at(ElementType type, const CodeLayout& layout, const std::byte* header,
                 const std::byte* block, std::size_t lane) {
    const std::byte* scales = block + layout.scale_offset;
    const auto first = std::to_integer<std::uint8_t>(scales[lane]);
    const auto second = std::to_integer<std::uint8_t>(block[layout.second_offset + lane]);
    const auto half = [](const std::byte* from, std::size_t index) {
        return f16_to_f32(word_at<std::uint16_t>(from, index));
    };
    const auto signed_value = [](std::uint8_t bits) {
        return static_cast<float>(static_cast<std::int8_t>(bits));
    };
    switch (type) {
        case ElementType::mxfp4:
            return {e8m0_half(first), 0, 0};
        case ElementType::nvfp4:
            return {ue4m3_half(first), ue4m3_half(second), 0};
        case ElementType::q4_k:
        case ElementType::q5_k:
            return {half(header, lane) * static_cast<float>(first), 0,
                    half(header, kLanes + lane) * static_cast<float>(second)};
        case ElementType::q6_k:
            return {half(header, lane) * signed_value(first),
                    half(header, lane) * signed_value(second), 0};
        case ElementType::iq3_s:
            return {half(header, lane) * static_cast<float>(1 + 2 * first), 0, 0};
        case ElementType::q4_0:
        case ElementType::iq4_nl:
            return {half(scales, lane), 0, 0};
        case ElementType::q8_0:
        case ElementType::f32:
        case ElementType::f16:
        case ElementType::bf16:
            break;
    }
    return {};
}

const std::byte* block_start(const CodeLayout& layout, const std::byte* group, std::size_t block) {
    return group + layout.header_bytes + block * layout.block_bytes;
}

template <ElementType kType>
void unpack(const std::byte* group, std::int64_t block, CodeBlock& out) {
    const CodeLayout layout = code_layout(kType);
    const std::byte* start = block_start(layout, group, static_cast<std::size_t>(block));
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
        const Scales scales = scales_at(kType, layout, group, start, lane);
        out.scales[lane] = scales.first;
        out.scales[kLanes + lane] = scales.second;
        out.minimums[lane] = scales.minimum;
        for (std::size_t k = 0; k < kBlock; ++k) {
            out.codes[(k / 4 * kLanes + lane) * 4 + k % 4] =
                with_bias(code_at(kType, layout, start, k, lane));
        }
    }
}

}  // namespace

CodeLayout code_layout(ElementType type) {
    constexpr std::size_t kHalves = 2 * kLanes;  // bytes of an f16 of each row
    switch (type) {
        case ElementType::q4_0:
        case ElementType::iq4_nl:
            return {1, 0, kNibbles + kHalves, 0, kNibbles, kNibbles, false, false};
        case ElementType::mxfp4:
            return {1, 0, kNibbles + kLanes, 0, kNibbles, kNibbles, false, false};
        case ElementType::nvfp4:
            return {1, 0, kNibbles + 2 * kLanes, 0, kNibbles, kNibbles + kLanes, true, false};
        case ElementType::q4_k:
            return {8,     2 * kHalves, kNibbles + 2 * kLanes, 0, kNibbles, kNibbles + kLanes,
                    false, true};
        case ElementType::q5_k:
            return {8,
                    2 * kHalves,
                    kNibbles + kVector + 2 * kLanes,
                    kNibbles,
                    kNibbles + kVector,
                    kNibbles + kVector + kLanes,
                    false,
                    true};
        case ElementType::q6_k:
            return {8,
                    kHalves,
                    kNibbles + 2 * kVector + 2 * kLanes,
                    kNibbles,
                    kNibbles + 2 * kVector,
                    kNibbles + 2 * kVector + kLanes,
                    true,
                    false};
        case ElementType::iq3_s:
            return {8, kHalves, kIq3sScales + kLanes, 0, kIq3sScales, kIq3sScales, false, false};
        case ElementType::q8_0:
        case ElementType::f32:
        case ElementType::f16:
        case ElementType::bf16:
            break;
    }
    STRATA_INVARIANT(false && "a type without codes");
}

void pack_code_row(ElementType type, const std::byte* row, std::int64_t cols, std::int64_t lane,
                   std::byte* tile) {
    const CodeLayout layout = code_layout(type);
    const BlockShape shape = block_shape(type);
    const auto to_lane = static_cast<std::size_t>(lane);
    const auto in_group = static_cast<std::size_t>(layout.blocks);
    RawCodes code{};
    for (std::size_t k = 0; k < static_cast<std::size_t>(cols);
         k += shape.elements, row += shape.bytes) {
        if (type != ElementType::iq3_s) raw_codes(type, row, code);
        for (std::size_t b = 0; b < shape.elements / kBlock; ++b) {
            const std::size_t index = k / kBlock + b;
            std::byte* group = tile + index / in_group * layout.group_bytes();
            std::byte* block = group + layout.header_bytes + index % in_group * layout.block_bytes;
            if (b == 0) place_header(type, row, to_lane, group);
            place_scales(type, row, b, to_lane, layout, block);
            if (type == ElementType::iq3_s) {
                place_iq3s_block(row, b, to_lane, block);
            } else {
                place_codes(type, code.data() + b * kBlock, to_lane, layout, block);
            }
        }
    }
}

void decode_code_lane(ElementType type, const std::byte* tile, std::int64_t cols, std::int64_t lane,
                      float* out) {
    const CodeLayout layout = code_layout(type);
    const auto from_lane = static_cast<std::size_t>(lane);
    const auto in_group = static_cast<std::size_t>(layout.blocks);
    for (std::size_t b = 0; b < static_cast<std::size_t>(cols) / kBlock; ++b) {
        const std::byte* group = tile + b / in_group * layout.group_bytes();
        const std::byte* block = block_start(layout, group, b % in_group);
        const Scales scales = scales_at(type, layout, group, block, from_lane);
        for (std::size_t k = 0; k < kBlock; ++k) {
            const bool second = layout.half_scales && k >= kBlock / 2;
            const auto code = static_cast<float>(code_at(type, layout, block, k, from_lane));
            const float value = (second ? scales.second : scales.first) * code;
            out[b * kBlock + k] = layout.minimums ? value - scales.minimum : value;
        }
    }
}

const std::uint32_t* iq3s_table() {
    return kIq3sGrid.data();
}

UnpackBlock unpack_of_scalar(ElementType type) {
    switch (type) {
        case ElementType::q4_0:
            return unpack<ElementType::q4_0>;
        case ElementType::q4_k:
            return unpack<ElementType::q4_k>;
        case ElementType::q5_k:
            return unpack<ElementType::q5_k>;
        case ElementType::q6_k:
            return unpack<ElementType::q6_k>;
        case ElementType::iq4_nl:
            return unpack<ElementType::iq4_nl>;
        case ElementType::iq3_s:
            return unpack<ElementType::iq3_s>;
        case ElementType::mxfp4:
            return unpack<ElementType::mxfp4>;
        case ElementType::nvfp4:
            return unpack<ElementType::nvfp4>;
        case ElementType::q8_0:
        case ElementType::f32:
        case ElementType::f16:
        case ElementType::bf16:
            break;
    }
    return nullptr;
}

}  // namespace strata
