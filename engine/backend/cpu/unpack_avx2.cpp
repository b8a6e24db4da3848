// Blocks of codes taken apart with AVX2: 32 codes at a time. Compiled with its own flags; includes
// nothing whose inline functions another file may share. The order of the planes is code_lanes.hpp.
#include "engine/backend/cpu/code_lanes.hpp"

#if defined(__AVX2__) && defined(__FMA__) && defined(__F16C__)

#include <cstring>

#include <immintrin.h>

namespace strata {
namespace {

constexpr std::int64_t kVectorBytes = 32;
constexpr std::int64_t kNibbleBytes = 8 * kVectorBytes;
constexpr std::int64_t kRowBytes = 16;  // one byte of each row of a tile

inline __m256i load(const std::byte* from) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from));
}
inline void store(std::uint8_t* to, __m256i codes) {
    _mm256_store_si256(reinterpret_cast<__m256i*>(to), codes);
}
inline __m128i eight_bytes(const std::byte* from) {
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(from));
}
inline __m128i sixteen_bytes(const std::byte* from) {
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
}

// All 8 groups of a block from its nibble plane, two vectors each.
inline void put_nibbles(const std::byte* plane, const NibbleTable& table, CodeBlock& out) {
    const __m256i values =
        _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table.value)));
    const __m256i low_bits = _mm256_set1_epi8(15);
    for (std::int64_t v = 0; v < kNibbleBytes; v += kVectorBytes) {
        const __m256i both = load(plane + v);
        const __m256i high = _mm256_and_si256(_mm256_srli_epi16(both, 4), low_bits);
        store(out.codes + v, _mm256_shuffle_epi8(values, _mm256_and_si256(both, low_bits)));
        store(out.codes + kNibbleBytes + v, _mm256_shuffle_epi8(values, high));
    }
}
// Adds to the codes of group `group`, vector `v`.
inline void add_to(CodeBlock& out, std::int64_t group, std::int64_t v, __m256i more) {
    std::uint8_t* codes = out.codes + (2 * group + v) * kVectorBytes;
    store(codes, _mm256_add_epi8(_mm256_load_si256(reinterpret_cast<const __m256i*>(codes)), more));
}

// One f32 of each of 16 rows: two vectors.
struct RowValues {
    __m256 first;
    __m256 second;
};
inline RowValues unsigned_rows(const std::byte* from) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight_bytes(from))),
            _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(eight_bytes(from + 8)))};
}
inline RowValues signed_rows(const std::byte* from) {
    return {_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight_bytes(from))),
            _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight_bytes(from + 8)))};
}
inline RowValues half_rows(const std::byte* from) {
    return {_mm256_cvtph_ps(sixteen_bytes(from)), _mm256_cvtph_ps(sixteen_bytes(from + kRowBytes))};
}
inline void store_product(float* to, RowValues a, RowValues b) {
    _mm256_store_ps(to, _mm256_mul_ps(a.first, b.first));
    _mm256_store_ps(to + 8, _mm256_mul_ps(a.second, b.second));
}

// 2^(byte - 128), subnormal results included.
inline __m256 e8m0_halves(const std::byte* from) {
    const __m256i byte = _mm256_cvtepu8_epi32(eight_bytes(from));
    const __m256i normal = _mm256_slli_epi32(_mm256_sub_epi32(byte, _mm256_set1_epi32(1)), 23);
    const __m256i tiny = _mm256_sllv_epi32(_mm256_set1_epi32(0x00200000), byte);
    const __m256i small = _mm256_cmpgt_epi32(_mm256_set1_epi32(2), byte);
    return _mm256_castsi256_ps(_mm256_blendv_epi8(normal, tiny, small));
}

// UE4M3 / 2: (8 + mantissa) * 2^(exponent - 11), without the 8 and with exponent 1 where that is 0.
inline __m256 ue4m3_halves(const std::byte* from) {
    const __m256i last = _mm256_set1_epi32(0x7F);
    const __m256i code = _mm256_and_si256(_mm256_cvtepu8_epi32(eight_bytes(from)), last);
    const __m256i exponent = _mm256_srli_epi32(code, 3);
    const __m256i mantissa = _mm256_and_si256(code, _mm256_set1_epi32(7));
    const __m256i normal = _mm256_cmpgt_epi32(exponent, _mm256_setzero_si256());
    const __m256i eighths =
        _mm256_add_epi32(mantissa, _mm256_and_si256(normal, _mm256_set1_epi32(8)));
    const __m256i power = _mm256_max_epi32(exponent, _mm256_set1_epi32(1));
    const __m256i unit =
        _mm256_slli_epi32(_mm256_add_epi32(power, _mm256_set1_epi32(127 - 11)), 23);
    const __m256 value = _mm256_mul_ps(_mm256_cvtepi32_ps(eighths), _mm256_castsi256_ps(unit));
    return _mm256_andnot_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(code, last)), value);
}

template <const NibbleTable& kTable>
void unpack_nibbles_half(const std::byte* group, std::int64_t, CodeBlock& out) {
    put_nibbles(group, kTable, out);
    const RowValues scales = half_rows(group + kNibbleBytes);
    _mm256_store_ps(out.scales, scales.first);
    _mm256_store_ps(out.scales + 8, scales.second);
}

void unpack_mxfp4(const std::byte* group, std::int64_t, CodeBlock& out) {
    put_nibbles(group, kNibbleE2m1, out);
    for (std::int64_t v = 0; v < 16; v += 8) {
        _mm256_store_ps(out.scales + v, e8m0_halves(group + kNibbleBytes + v));
    }
}

void unpack_nvfp4(const std::byte* group, std::int64_t, CodeBlock& out) {
    put_nibbles(group, kNibbleE2m1, out);
    for (std::int64_t v = 0; v < 32; v += 8) {
        _mm256_store_ps(out.scales + v, ue4m3_halves(group + kNibbleBytes + v));
    }
}

// Scales and minimums of Q4_K and Q5_K.
inline void k_scales(const std::byte* header, const std::byte* scales, CodeBlock& out) {
    store_product(out.scales, half_rows(header), unsigned_rows(scales));
    store_product(out.minimums, half_rows(header + 2 * kRowBytes),
                  unsigned_rows(scales + kRowBytes));
}

constexpr std::int64_t kKHeaderBytes = 4 * kRowBytes;
constexpr std::int64_t kQ4KBlockBytes = kNibbleBytes + 2 * kRowBytes;
constexpr std::int64_t kQ5KBlockBytes = kQ4KBlockBytes + 2 * kVectorBytes;
constexpr std::int64_t kQ6KBlockBytes = kQ4KBlockBytes + 4 * kVectorBytes;
constexpr std::int64_t kIq3sBlockBytes = static_cast<std::int64_t>(kIq3sScales) + kRowBytes;

void unpack_q4_k(const std::byte* group, std::int64_t block, CodeBlock& out) {
    const std::byte* start = group + kKHeaderBytes + block * kQ4KBlockBytes;
    put_nibbles(start, kNibblePlain, out);
    k_scales(group, start + kNibbleBytes, out);
}

void unpack_q5_k(const std::byte* group, std::int64_t block, CodeBlock& out) {
    const std::byte* start = group + kKHeaderBytes + block * kQ5KBlockBytes;
    put_nibbles(start, kNibblePlain, out);
    for (std::int64_t v = 0; v < 2; ++v) {
        const __m256i high = load(start + kNibbleBytes + v * kVectorBytes);
        for (std::int64_t g = 0; g < 8; ++g) {
            const __m256i bit = _mm256_set1_epi8(static_cast<char>(1 << g));
            const __m256i set = _mm256_cmpeq_epi8(_mm256_and_si256(high, bit), bit);
            add_to(out, g, v, _mm256_and_si256(set, _mm256_set1_epi8(16)));
        }
    }
    k_scales(group, start + kNibbleBytes + 2 * kVectorBytes, out);
}

void unpack_q6_k(const std::byte* group, std::int64_t block, CodeBlock& out) {
    const std::byte* start = group + 2 * kRowBytes + block * kQ6KBlockBytes;
    put_nibbles(start, kNibbleLess32, out);
    const __m256i bits = _mm256_set1_epi8(0x30);
    for (std::int64_t v = 0; v < 4; ++v) {  // two vectors for groups 0 to 3, two for 4 to 7
        const __m256i high = load(start + kNibbleBytes + v * kVectorBytes);
        const std::int64_t g = v / 2 * 4;
        add_to(out, g, v % 2, _mm256_and_si256(_mm256_slli_epi16(high, 4), bits));
        add_to(out, g + 1, v % 2, _mm256_and_si256(_mm256_slli_epi16(high, 2), bits));
        add_to(out, g + 2, v % 2, _mm256_and_si256(high, bits));
        add_to(out, g + 3, v % 2, _mm256_and_si256(_mm256_srli_epi16(high, 2), bits));
    }
    const std::byte* scales = start + kNibbleBytes + 4 * kVectorBytes;
    const RowValues d = half_rows(group);
    store_product(out.scales, d, signed_rows(scales));
    store_product(out.scales + 16, d, signed_rows(scales + kRowBytes));
}

// Bit i of the low 8 of `bits` to lane i: all ones or zero.
inline __m256i bits_to_lanes(unsigned bits) {
    const __m256i places = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i set = _mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), places);
    return _mm256_cmpeq_epi32(set, places);
}
// Bit i of 32 to byte i.
inline __m256i bits_to_bytes(std::uint32_t bits) {
    const __m256i spread = _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1, 2, 2, 2,
                                            2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3);
    const __m256i places = _mm256_set1_epi64x(static_cast<long long>(0x8040201008040201ULL));
    const __m256i bytes = _mm256_shuffle_epi8(_mm256_set1_epi32(static_cast<int>(bits)), spread);
    return _mm256_cmpeq_epi8(_mm256_and_si256(bytes, places), places);
}

void unpack_iq3_s(const std::byte* group, std::int64_t block, CodeBlock& out) {
    const std::byte* start = group + 2 * kRowBytes + block * kIq3sBlockBytes;
    const int* table = reinterpret_cast<const int*>(iq3s_table());
    const __m256i bias = _mm256_set1_epi8(-128);
    for (std::int64_t v = 0; v < 16; ++v) {  // vector v: rows 8 (v % 2) .. of group v / 2
        std::uint32_t signs = 0;
        std::memcpy(&signs, start + kIq3sSigns + v * 4, sizeof signs);
        const auto high =
            static_cast<unsigned>(start[static_cast<std::int64_t>(kIq3sHighBits) + v]);
        const __m256i low = _mm256_cvtepu8_epi32(eight_bytes(start + v * 8));
        const __m256i ninth = _mm256_and_si256(bits_to_lanes(high), _mm256_set1_epi32(256));
        const __m256i size = _mm256_i32gather_epi32(table, _mm256_add_epi32(low, ninth), 4);
        const __m256i negative = bits_to_bytes(signs);
        const __m256i value = _mm256_sub_epi8(_mm256_xor_si256(size, negative), negative);
        store(out.codes + v * kVectorBytes, _mm256_xor_si256(value, bias));
    }
    RowValues odd = unsigned_rows(start + kIq3sScales);
    const __m256 one = _mm256_set1_ps(1.0F);
    odd.first = _mm256_add_ps(_mm256_add_ps(odd.first, odd.first), one);
    odd.second = _mm256_add_ps(_mm256_add_ps(odd.second, odd.second), one);
    store_product(out.scales, half_rows(group), odd);
}

}  // namespace

UnpackBlock unpack_of_avx2(ElementType type) {
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
UnpackBlock unpack_of_avx2(ElementType type) {
    return unpack_of_scalar(type);
}
}  // namespace strata

#endif
