#include "engine/backend/cpu/blocks.hpp"

#include <bit>
#include <cmath>
#include <cstring>

#include "strata/backend/iq3s_grid.hpp"
#include "strata/core/invariant.hpp"

namespace strata {
namespace {

unsigned byte_at(const std::byte* from, std::size_t i) {
    return std::to_integer<unsigned>(from[i]);
}
int signed_at(const std::byte* from, std::size_t i) {
    return static_cast<std::int8_t>(byte_at(from, i));
}
unsigned low(unsigned byte) {
    return byte & 15U;
}
unsigned high(unsigned byte) {
    return byte >> 4;
}

std::uint16_t word_at(const std::byte* from) {
    std::uint16_t word = 0;
    std::memcpy(&word, from, sizeof word);
    return word;
}

float half_at(const std::byte* from) {
    return f16_to_f32(word_at(from));
}

// Blocks, one function each: `in` is one block, `out` its elements.
void decode_f32(const std::byte* in, float* out) {
    std::memcpy(out, in, sizeof *out);
}
void decode_f16(const std::byte* in, float* out) {
    *out = half_at(in);
}
void decode_bf16(const std::byte* in, float* out) {
    *out = bf16_to_f32(word_at(in));
}

void decode_q8_0(const std::byte* in, float* out) {
    const float d = half_at(in);
    for (std::size_t j = 0; j < 32; ++j) out[j] = d * static_cast<float>(signed_at(in + 2, j));
}

void decode_q4_0(const std::byte* in, float* out) {
    const float d = half_at(in);
    for (std::size_t j = 0; j < 16; ++j) {
        const unsigned codes = byte_at(in + 2, j);
        out[j] = d * static_cast<float>(static_cast<int>(low(codes)) - 8);
        out[j + 16] = d * static_cast<float>(static_cast<int>(high(codes)) - 8);
    }
}

void decode_iq4_nl(const std::byte* in, float* out) {
    const float d = half_at(in);
    for (std::size_t j = 0; j < 16; ++j) {
        const unsigned codes = byte_at(in + 2, j);
        out[j] = d * static_cast<float>(kIq4NlValues[low(codes)]);
        out[j + 16] = d * static_cast<float>(kIq4NlValues[high(codes)]);
    }
}

// Sub-blocks 2g and 2g + 1 share the 32 bytes of group g: low and high nibbles.
void decode_q4_k(const std::byte* in, float* out) {
    const float d = half_at(in);
    const float dmin = half_at(in + 2);
    const std::byte* nibbles = in + 16;
    for (std::size_t j = 0; j < 8; ++j) {
        const ScaleMin packed = packed_scale_min(in + 4, j);
        const float scale = d * static_cast<float>(packed.scale);
        const float min = dmin * static_cast<float>(packed.min);
        for (std::size_t l = 0; l < 32; ++l) {
            const unsigned byte = byte_at(nibbles, j / 2 * 32 + l);
            const unsigned code = j % 2 == 0 ? low(byte) : high(byte);
            out[j * 32 + l] = scale * static_cast<float>(code) - min;
        }
    }
}

// As Q4_K; bit j of high byte l is the fifth bit of element l of sub-block j.
void decode_q5_k(const std::byte* in, float* out) {
    const float d = half_at(in);
    const float dmin = half_at(in + 2);
    const std::byte* fifths = in + 16;
    const std::byte* nibbles = in + 48;
    for (std::size_t j = 0; j < 8; ++j) {
        const ScaleMin packed = packed_scale_min(in + 4, j);
        const float scale = d * static_cast<float>(packed.scale);
        const float min = dmin * static_cast<float>(packed.min);
        for (std::size_t l = 0; l < 32; ++l) {
            const unsigned byte = byte_at(nibbles, j / 2 * 32 + l);
            const unsigned fifth = (byte_at(fifths, l) >> j & 1U) << 4;
            const unsigned code = (j % 2 == 0 ? low(byte) : high(byte)) | fifth;
            out[j * 32 + l] = scale * static_cast<float>(code) - min;
        }
    }
}

// Two halves of 128 elements; quarter q (32 elements) of a half takes its low bits from nibbles and
// its bits 4 and 5 from bits 2q and 2q + 1 of the high bytes.
void decode_q6_k(const std::byte* in, float* out) {
    const float d = half_at(in + 208);
    for (std::size_t half = 0; half < 2; ++half) {
        const std::byte* nibbles = in + half * 64;
        const std::byte* highs = in + 128 + half * 32;
        const std::byte* scales = in + 192 + half * 8;
        for (std::size_t q = 0; q < 4; ++q) {
            for (std::size_t l = 0; l < 32; ++l) {
                const unsigned byte = byte_at(nibbles, q % 2 * 32 + l);
                const unsigned top = byte_at(highs, l) >> (2 * q) & 3U;
                const int code = static_cast<int>((q < 2 ? low(byte) : high(byte)) | top << 4) - 32;
                const float scale = d * static_cast<float>(signed_at(scales, 2 * q + l / 16));
                out[half * 128 + q * 32 + l] = scale * static_cast<float>(code);
            }
        }
    }
}

// 8 groups of 32 elements; each of a group's 8 grid indices gives 4 magnitudes.
void decode_iq3_s(const std::byte* in, float* out) {
    const float d = half_at(in);
    const std::byte* indices = in + 2;
    const std::byte* ninths = in + 66;
    const std::byte* signs = in + 74;
    const std::byte* scales = in + 106;
    for (std::size_t group = 0; group < 8; ++group) {
        const unsigned pair = byte_at(scales, group / 2);
        const float scale =
            d * static_cast<float>(1 + 2 * (group % 2 == 0 ? low(pair) : high(pair)));
        for (std::size_t e = 0; e < 32; ++e) {
            const std::size_t k = e / 4;
            const unsigned ninth = byte_at(ninths, group) >> k & 1U;
            const std::uint32_t entry = kIq3sGrid[byte_at(indices, group * 8 + k) | ninth << 8];
            const float magnitude = scale * static_cast<float>(entry >> (8 * (e % 4)) & 255U);
            const bool negative = (byte_at(signs, group * 4 + e / 8) >> (e % 8) & 1U) != 0;
            out[group * 32 + e] = negative ? -magnitude : magnitude;
        }
    }
}

void decode_mxfp4(const std::byte* in, float* out) {
    const float scale = e8m0_half(static_cast<std::uint8_t>(byte_at(in, 0)));
    for (std::size_t j = 0; j < 16; ++j) {
        const unsigned codes = byte_at(in + 1, j);
        out[j] = scale * static_cast<float>(kE2m1Doubled[low(codes)]);
        out[j + 16] = scale * static_cast<float>(kE2m1Doubled[high(codes)]);
    }
}

// 4 sub-blocks of 16 elements, each with its own scale byte and 8 code bytes.
void decode_nvfp4(const std::byte* in, float* out) {
    for (std::size_t sub = 0; sub < 4; ++sub) {
        const float scale = ue4m3_half(static_cast<std::uint8_t>(byte_at(in, sub)));
        for (std::size_t j = 0; j < 8; ++j) {
            const unsigned codes = byte_at(in + 4, sub * 8 + j);
            out[sub * 16 + j] = scale * static_cast<float>(kE2m1Doubled[low(codes)]);
            out[sub * 16 + j + 8] = scale * static_cast<float>(kE2m1Doubled[high(codes)]);
        }
    }
}

using BlockDecoder = void (*)(const std::byte*, float*);

BlockDecoder decoder_of(ElementType type) {
    switch (type) {
        case ElementType::f32:
            return decode_f32;
        case ElementType::f16:
            return decode_f16;
        case ElementType::bf16:
            return decode_bf16;
        case ElementType::q8_0:
            return decode_q8_0;
        case ElementType::q4_0:
            return decode_q4_0;
        case ElementType::q4_k:
            return decode_q4_k;
        case ElementType::q5_k:
            return decode_q5_k;
        case ElementType::q6_k:
            return decode_q6_k;
        case ElementType::iq4_nl:
            return decode_iq4_nl;
        case ElementType::iq3_s:
            return decode_iq3_s;
        case ElementType::mxfp4:
            return decode_mxfp4;
        case ElementType::nvfp4:
            return decode_nvfp4;
    }
    return nullptr;
}

}  // namespace

float f16_to_f32(std::uint16_t bits) {
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
    const std::uint32_t exponent = bits >> 10 & 31U;
    const std::uint32_t mantissa = bits & 0x3FFU;
    if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000U | mantissa << 13);
    if (exponent != 0) return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
    const float magnitude = std::ldexp(static_cast<float>(mantissa), -24);
    return sign != 0 ? -magnitude : magnitude;
}

std::uint16_t f32_to_f16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t sign = bits >> 16 & 0x8000U;
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    if (magnitude > 0x7F800000U)
        return static_cast<std::uint16_t>(sign | 0x7E00U | (magnitude >> 13 & 0x3FFU));
    // 65520 is the middle between the largest binary16 and the next power of two: a tie, to even,
    // up.
    if (magnitude >= 0x477FF000U) return static_cast<std::uint16_t>(sign | 0x7C00U);
    // Units of the result's last place: below 2^-14 they stay 2^-24.
    const std::uint32_t exponent = magnitude >> 23;
    const std::uint32_t mantissa = (magnitude & 0x7FFFFFU) | (exponent == 0 ? 0U : 0x800000U);
    const std::uint32_t shift = exponent >= 113 ? 13 : 126 - exponent;
    if (shift > 24) return static_cast<std::uint16_t>(sign);
    const std::uint32_t kept = mantissa >> shift;
    const std::uint32_t rest = mantissa & ((1U << shift) - 1U);
    const std::uint32_t middle = 1U << (shift - 1);
    const std::uint32_t up = rest > middle || (rest == middle && (kept & 1U) != 0) ? 1U : 0U;
    // The hidden bit of `kept` adds 1 to the exponent field, as does a mantissa that rounds over.
    const std::uint32_t field = exponent >= 113 ? exponent - 113 : 0U;
    return static_cast<std::uint16_t>(sign | ((field << 10) + kept + up));
}

float bf16_to_f32(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

std::uint16_t f32_to_bf16(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return static_cast<std::uint16_t>(bits >> 16 | 0x40U);
    return static_cast<std::uint16_t>((bits + 0x7FFFU + (bits >> 16 & 1U)) >> 16);
}

float e8m0_half(std::uint8_t byte) {
    return std::ldexp(1.0F, static_cast<int>(byte) - 128);
}

float ue4m3_half(std::uint8_t byte) {
    const unsigned code = byte & 0x7FU;
    if (code == 0x7F) return 0.0F;
    const int exponent = static_cast<int>(code >> 3);
    const auto mantissa = static_cast<float>(code & 7U);
    if (exponent == 0) return std::ldexp(mantissa, -10);
    return std::ldexp(8.0F + mantissa, exponent - 11);
}

ScaleMin packed_scale_min(const std::byte* packed, std::size_t j) {
    const auto q = [&](std::size_t i) { return byte_at(packed, i); };
    if (j < 4)
        return {static_cast<std::uint8_t>(q(j) & 63U), static_cast<std::uint8_t>(q(j + 4) & 63U)};
    return {static_cast<std::uint8_t>(low(q(j + 4)) | q(j - 4) >> 6 << 4),
            static_cast<std::uint8_t>(high(q(j + 4)) | q(j) >> 6 << 4)};
}

void decode_blocks(ElementType type, const std::byte* stored, std::size_t elements, float* out) {
    const BlockShape shape = block_shape(type);
    STRATA_INVARIANT(elements % shape.elements == 0);
    const BlockDecoder decode = decoder_of(type);
    STRATA_INVARIANT(decode != nullptr);
    for (std::size_t done = 0; done < elements; done += shape.elements) {
        decode(stored, out + done);
        stored += shape.bytes;
    }
}

}  // namespace strata
