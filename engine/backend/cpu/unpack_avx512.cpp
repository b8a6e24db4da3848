// Blocks of codes taken apart with AVX-512: 64 codes at a time. Compiled with its own flags;
// includes nothing whose inline functions another file may share. The order of the planes is
// code_lanes.hpp.
#include "engine/backend/cpu/code_lanes.hpp"

#if defined(__AVX512F__) && defined(__AVX512VNNI__)

// GCC 12's own header starts unused operands from themselves; the warning is about those.
#pragma GCC diagnostic ignored "-Wuninitialized"
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#include <cstring>

#include <immintrin.h>

namespace strata {
namespace {

constexpr std::int64_t kVectorBytes = 64;
constexpr std::int64_t kNibbleBytes = 4 * kVectorBytes;
constexpr std::int64_t kRowBytes = 16;  // one byte of each row of a tile

inline __m512i load(const std::byte* from) {
    return _mm512_loadu_si512(from);
}
inline void store(std::uint8_t* to, __m512i codes) {
    _mm512_store_si512(to, codes);
}

inline __m128i row_bytes(const std::byte* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}
inline __m512 unsigned_rows(const std::byte* from) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(row_bytes(from)));
}
inline __m512 signed_rows(const std::byte* from) {
    return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(row_bytes(from)));
}
inline __m512 half_rows(const std::byte* from) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

// All 8 groups of a block from its nibble plane.
struct Groups {
    __m512i codes[8];
};
inline Groups nibbles(const std::byte* plane, const NibbleTable& table) {
    const __m512i values =
        _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table.value)));
    const __m512i low_bits = _mm512_set1_epi8(15);
    Groups out;
    for (int v = 0; v < 4; ++v) {
        const __m512i both = load(plane + v * kVectorBytes);
        const __m512i high = _mm512_and_si512(_mm512_srli_epi16(both, 4), low_bits);
        out.codes[v] = _mm512_shuffle_epi8(values, _mm512_and_si512(both, low_bits));
        out.codes[v + 4] = _mm512_shuffle_epi8(values, high);
    }
    return out;
}
inline void store_groups(const Groups& groups, CodeBlock& out) {
    for (int g = 0; g < 8; ++g) store(out.codes + g * kVectorBytes, groups.codes[g]);
}

// 2^(byte - 128), subnormal results included.
inline __m512 e8m0_halves(const std::byte* from) {
    const __m512i byte = _mm512_cvtepu8_epi32(row_bytes(from));
    const __m512i normal = _mm512_slli_epi32(_mm512_sub_epi32(byte, _mm512_set1_epi32(1)), 23);
    const __m512i tiny = _mm512_sllv_epi32(_mm512_set1_epi32(0x00200000), byte);
    const __mmask16 small = _mm512_cmplt_epi32_mask(byte, _mm512_set1_epi32(2));
    return _mm512_castsi512_ps(_mm512_mask_mov_epi32(normal, small, tiny));
}

// UE4M3 / 2: (8 + mantissa) * 2^(exponent - 11), without the 8 and with exponent 1 where that is 0.
inline __m512 ue4m3_halves(const std::byte* from) {
    const __m512i last = _mm512_set1_epi32(0x7F);
    const __m512i code = _mm512_and_si512(_mm512_cvtepu8_epi32(row_bytes(from)), last);
    const __mmask16 number = _mm512_cmpneq_epi32_mask(code, last);
    const __m512i exponent = _mm512_srli_epi32(code, 3);
    const __m512i mantissa = _mm512_and_si512(code, _mm512_set1_epi32(7));
    const __mmask16 normal = _mm512_test_epi32_mask(exponent, exponent);
    const __m512i eighths = _mm512_mask_add_epi32(mantissa, normal, mantissa, _mm512_set1_epi32(8));
    const __m512i power = _mm512_max_epi32(exponent, _mm512_set1_epi32(1));
    const __m512i unit =
        _mm512_slli_epi32(_mm512_add_epi32(power, _mm512_set1_epi32(127 - 11)), 23);
    return _mm512_maskz_mul_ps(number, _mm512_cvtepi32_ps(eighths), _mm512_castsi512_ps(unit));
}

template <const NibbleTable& kTable>
void unpack_nibbles_half(const std::byte* group, std::int64_t, CodeBlock& out) {
    store_groups(nibbles(group, kTable), out);
    _mm512_store_ps(out.scales, half_rows(group + kNibbleBytes));
}

void unpack_mxfp4(const std::byte* group, std::int64_t, CodeBlock& out) {
    store_groups(nibbles(group, kNibbleE2m1), out);
    _mm512_store_ps(out.scales, e8m0_halves(group + kNibbleBytes));
}

void unpack_nvfp4(const std::byte* group, std::int64_t, CodeBlock& out) {
    store_groups(nibbles(group, kNibbleE2m1), out);
    _mm512_store_ps(out.scales, ue4m3_halves(group + kNibbleBytes));
    _mm512_store_ps(out.scales + 16, ue4m3_halves(group + kNibbleBytes + kRowBytes));
}

// Scales and minimums of Q4_K and Q5_K.
inline void k_scales(const std::byte* header, const std::byte* scales, CodeBlock& out) {
    _mm512_store_ps(out.scales, _mm512_mul_ps(half_rows(header), unsigned_rows(scales)));
    _mm512_store_ps(out.minimums, _mm512_mul_ps(half_rows(header + 2 * kRowBytes),
                                                unsigned_rows(scales + kRowBytes)));
}

constexpr std::int64_t kKHeaderBytes = 4 * kRowBytes;
constexpr std::int64_t kQ4KBlockBytes = kNibbleBytes + 2 * kRowBytes;
constexpr std::int64_t kQ5KBlockBytes = kQ4KBlockBytes + kVectorBytes;
constexpr std::int64_t kQ6KBlockBytes = kQ4KBlockBytes + 2 * kVectorBytes;
constexpr std::int64_t kIq3sBlockBytes = static_cast<std::int64_t>(kIq3sScales) + kRowBytes;

void unpack_q4_k(const std::byte* group, std::int64_t block, CodeBlock& out) {
    const std::byte* start = group + kKHeaderBytes + block * kQ4KBlockBytes;
    store_groups(nibbles(start, kNibblePlain), out);
    k_scales(group, start + kNibbleBytes, out);
}

void unpack_q5_k(const std::byte* group, std::int64_t block, CodeBlock& out) {
    const std::byte* start = group + kKHeaderBytes + block * kQ5KBlockBytes;
    Groups codes = nibbles(start, kNibblePlain);
    const __m512i high = load(start + kNibbleBytes);
    const __m512i sixteen = _mm512_set1_epi8(16);
    for (int g = 0; g < 8; ++g) {
        const __mmask64 set =
            _mm512_test_epi8_mask(high, _mm512_set1_epi8(static_cast<char>(1 << g)));
        codes.codes[g] = _mm512_mask_add_epi8(codes.codes[g], set, codes.codes[g], sixteen);
    }
    store_groups(codes, out);
    k_scales(group, start + kNibbleBytes + kVectorBytes, out);
}

void unpack_q6_k(const std::byte* group, std::int64_t block, CodeBlock& out) {
    const std::byte* start = group + 2 * kRowBytes + block * kQ6KBlockBytes;
    Groups codes = nibbles(start, kNibbleLess32);
    const __m512i bits = _mm512_set1_epi8(0x30);
    for (int v = 0; v < 2; ++v) {
        const __m512i high = load(start + kNibbleBytes + v * kVectorBytes);
        __m512i* four = codes.codes + 4 * v;
        four[0] = _mm512_add_epi8(four[0], _mm512_and_si512(_mm512_slli_epi16(high, 4), bits));
        four[1] = _mm512_add_epi8(four[1], _mm512_and_si512(_mm512_slli_epi16(high, 2), bits));
        four[2] = _mm512_add_epi8(four[2], _mm512_and_si512(high, bits));
        four[3] = _mm512_add_epi8(four[3], _mm512_and_si512(_mm512_srli_epi16(high, 2), bits));
    }
    store_groups(codes, out);
    const std::byte* scales = start + kNibbleBytes + 2 * kVectorBytes;
    const __m512 d = half_rows(group);
    _mm512_store_ps(out.scales, _mm512_mul_ps(d, signed_rows(scales)));
    _mm512_store_ps(out.scales + 16, _mm512_mul_ps(d, signed_rows(scales + kRowBytes)));
}

void unpack_iq3_s(const std::byte* group, std::int64_t block, CodeBlock& out) {
    const std::byte* start = group + 2 * kRowBytes + block * kIq3sBlockBytes;
    const std::uint32_t* table = iq3s_table();
    const __m512i high_bit = _mm512_set1_epi32(256);
    const __m512i bias = _mm512_set1_epi8(-128);
    for (std::int64_t g = 0; g < 8; ++g) {
        std::uint16_t high = 0;
        std::uint64_t signs = 0;
        std::memcpy(&high, start + kIq3sHighBits + g * 2, sizeof high);
        std::memcpy(&signs, start + kIq3sSigns + g * 8, sizeof signs);
        const __m512i low = _mm512_cvtepu8_epi32(row_bytes(start + g * kRowBytes));
        const __m512i index = _mm512_mask_add_epi32(low, high, low, high_bit);
        const __m512i size = _mm512_i32gather_epi32(index, table, 4);
        const __m512i value = _mm512_mask_sub_epi8(size, signs, _mm512_setzero_si512(), size);
        store(out.codes + g * kVectorBytes, _mm512_xor_si512(value, bias));
    }
    const __m512 twice = _mm512_mul_ps(unsigned_rows(start + kIq3sScales), _mm512_set1_ps(2.0F));
    const __m512 odd = _mm512_add_ps(twice, _mm512_set1_ps(1.0F));
    _mm512_store_ps(out.scales, _mm512_mul_ps(half_rows(group), odd));
}

}  // namespace

UnpackBlock unpack_of_avx512(ElementType type) {
    switch (type) {
        case ElementType::q4_0:
            return unpack_nibbles_half<kNibbleLess8>;
        case ElementType::iq4_nl:
            return unpack_nibbles_half<kNibbleIq4Nl>;
        case ElementType::q4_k:
            return unpack_q4_k;
        case ElementType::q5_k:
            return unpack_q5_k;
        case ElementType::q6_k:
            return unpack_q6_k;
        case ElementType::iq3_s:
            return unpack_iq3_s;
        case ElementType::mxfp4:
            return unpack_mxfp4;
        case ElementType::nvfp4:
            return unpack_nvfp4;
        case ElementType::q8_0:
        case ElementType::f32:
        case ElementType::f16:
        case ElementType::bf16:
            break;
    }
    return nullptr;
}

}  // namespace strata

#else  // another processor family: never chosen, see isa.cpp

namespace strata {
UnpackBlock unpack_of_avx512(ElementType type) {
    return unpack_of_scalar(type);
}
}  // namespace strata

#endif
