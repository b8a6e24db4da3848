// A vector of f32 as wide as the instruction set this file is compiled for, and the few functions
// the float kernels need of it. Included only by float_kernels_*.cpp, each compiled with its own
// flags; everything is in an unnamed namespace, so that no two of them share a function.
#pragma once

#include <cstdint>
#include <cstring>
#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace {

#if defined(__AVX512F__)
constexpr std::int64_t kLanes = 16;
// The forms without a mask read a variable that GCC 12's headers leave uninitialised, and warn.
constexpr std::uint16_t kEveryLane = 0xFFFF;
#elif defined(__AVX2__)
constexpr std::int64_t kLanes = 8;
#else
constexpr std::int64_t kLanes = 4;
#endif

typedef float Lanes __attribute__((vector_size(kLanes * 4)));
typedef std::int32_t IntLanes __attribute__((vector_size(kLanes * 4)));

inline Lanes load(const float* from) {
    Lanes out;
    std::memcpy(&out, from, sizeof out);
    return out;
}

inline void store(float* to, Lanes value) {
    std::memcpy(to, &value, sizeof value);
}

inline Lanes all(float value) {
    return value - Lanes{};
}

// a * b + c, rounded once where the machine can.
inline Lanes fused(Lanes a, Lanes b, Lanes c) {
#if defined(__AVX512F__)
    return _mm512_fmadd_ps(a, b, c);
#elif defined(__AVX2__)
    return _mm256_fmadd_ps(a, b, c);
#else
    return a * b + c;
#endif
}

inline float fused(float a, float b, float c) {
#if defined(__AVX2__)
    return __builtin_fmaf(a, b, c);
#else
    return a * b + c;
#endif
}

// Of two lanes of which one is NaN both functions give the second.
inline Lanes larger(Lanes a, Lanes b) {
#if defined(__AVX512F__)
    return _mm512_maskz_max_ps(kEveryLane, a, b);
#else
    return a > b ? a : b;
#endif
}

inline Lanes smaller(Lanes a, Lanes b) {
#if defined(__AVX512F__)
    return _mm512_maskz_min_ps(kEveryLane, a, b);
#else
    return a < b ? a : b;
#endif
}

// Sums in halves: the order depends on kLanes alone.
inline float sum(Lanes value) {
    float lane[kLanes];
    store(lane, value);
    for (std::int64_t width = kLanes / 2; width > 0; width /= 2) {
        for (std::int64_t i = 0; i < width; ++i) lane[i] += lane[i + width];
    }
    return lane[0];
}

typedef float Quad __attribute__((vector_size(16)));

// Lanes added up four by four.
inline Quad folded(Lanes value) {
#if defined(__AVX512F__)
    typedef float Oct __attribute__((vector_size(32)));
    const Oct half = __builtin_shufflevector(value, value, 0, 1, 2, 3, 4, 5, 6, 7) +
                     __builtin_shufflevector(value, value, 8, 9, 10, 11, 12, 13, 14, 15);
    return __builtin_shufflevector(half, half, 0, 1, 2, 3) +
           __builtin_shufflevector(half, half, 4, 5, 6, 7);
#elif defined(__AVX2__)
    return __builtin_shufflevector(value, value, 0, 1, 2, 3) +
           __builtin_shufflevector(value, value, 4, 5, 6, 7);
#else
    return value;
#endif
}

// The sums of the lanes of each of four vectors.
inline Quad sums(Lanes a, Lanes b, Lanes c, Lanes d) {
    const Quad qa = folded(a);
    const Quad qb = folded(b);
    const Quad qc = folded(c);
    const Quad qd = folded(d);
    const Quad ab =
        __builtin_shufflevector(qa, qb, 0, 4, 1, 5) + __builtin_shufflevector(qa, qb, 2, 6, 3, 7);
    const Quad cd =
        __builtin_shufflevector(qc, qd, 0, 4, 1, 5) + __builtin_shufflevector(qc, qd, 2, 6, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) +
           __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}

// e^x: x = n ln 2 + r, |r| <= ln 2 / 2, the Taylor polynomial of degree 7 for e^r (relative error
// below 1e-8 there), times 2^n. Below -87.3, where the result is no longer a normal number, it is
// 0; of NaN it is NaN.
inline Lanes exponential(Lanes argument) {
    const Lanes x = smaller(all(88.3F), larger(all(-87.3F), argument));
    const Lanes shifter = all(12582912.0F);  // 1.5 * 2^23: adding it rounds to an integer
    const Lanes scaled = fused(x, all(1.44269504F), shifter);
    const Lanes n = scaled - shifter;
    Lanes r = fused(n, all(-0.693359375F), x);  // ln 2 in two parts, the first exact in n * part
    r = fused(n, all(2.12194440e-4F), r);
    Lanes p = all(1.0F / 5040.0F);
    p = fused(p, r, all(1.0F / 720.0F));
    p = fused(p, r, all(1.0F / 120.0F));
    p = fused(p, r, all(1.0F / 24.0F));
    p = fused(p, r, all(1.0F / 6.0F));
    p = fused(p, r, all(0.5F));
    p = fused(p, r, all(1.0F));
    p = fused(p, r, all(1.0F));
    IntLanes bits;
    std::memcpy(&bits, &scaled, sizeof bits);
    IntLanes shift;
    const Lanes base = shifter;
    std::memcpy(&shift, &base, sizeof shift);
    IntLanes result;
    std::memcpy(&result, &p, sizeof result);
    result += (bits - shift) << 23;
    std::memcpy(&p, &result, sizeof p);
    return argument < all(-87.3F) ? Lanes{} : p;
}

inline Lanes sigmoid(Lanes x) {
    return all(1.0F) / (all(1.0F) + exponential(-x));
}

inline float half_to_float(std::uint16_t half) {
    const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000U) << 16;
    const std::uint32_t magnitude = half & 0x7FFFU;
    std::uint32_t bits = 0;
    if (magnitude >= 0x7C00U) {  // infinity and NaN
        bits = 0x7F800000U | (magnitude & 0x3FFU) << 13;
    } else if (magnitude >= 0x0400U) {
        bits = (magnitude << 13) + 0x38000000U;
    } else {  // subnormal: magnitude * 2^-24, exact in f32
        const float value = static_cast<float>(magnitude) * 5.9604644775390625e-8F;
        std::memcpy(&bits, &value, sizeof bits);
    }
    bits |= sign;
    float out = 0;
    std::memcpy(&out, &bits, sizeof out);
    return out;
}

// To the nearest half, ties to even; too large becomes infinity.
inline std::uint16_t float_to_half(float value) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, &value, sizeof bits);
    const std::uint32_t sign = (bits >> 16) & 0x8000U;
    bits &= 0x7FFFFFFFU;
    std::uint32_t half = 0;
    if (bits > 0x7F800000U) {
        half = 0x7E00U;
    } else if (bits >= 0x477FF000U) {  // 65520 and above rounds to infinity
        half = 0x7C00U;
    } else if (bits >= 0x38800000U) {  // normal halves
        half = (bits - 0x38000000U + 0xFFFU + ((bits >> 13) & 1U)) >> 13;
    } else {  // adding 0.5 leaves the subnormal half, rounded to even, in the low bits
        float magnitude = 0;
        std::memcpy(&magnitude, &bits, sizeof magnitude);
        magnitude += 0.5F;
        std::memcpy(&half, &magnitude, sizeof half);
        half -= 0x3F000000U;
    }
    return static_cast<std::uint16_t>(half | sign);
}

inline Lanes load_halves(const std::uint16_t* from) {
#if defined(__AVX512F__)
    return _mm512_maskz_cvtph_ps(kEveryLane,
                                 _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
#elif defined(__AVX2__)
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
#else
    Lanes out;
    for (std::int64_t i = 0; i < kLanes; ++i) out[i] = half_to_float(from[i]);
    return out;
#endif
}

// kLanes codes as numbers.
inline Lanes load_codes(const std::int8_t* from) {
#if defined(__AVX512F__)
    const __m512i numbers = _mm512_maskz_cvtepi8_epi32(
        kEveryLane, _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    return _mm512_maskz_cvtepi32_ps(kEveryLane, numbers);
#elif defined(__AVX2__)
    return _mm256_cvtepi32_ps(
        _mm256_cvtepi8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(from))));
#else
    Lanes out;
    for (std::int64_t i = 0; i < kLanes; ++i) out[i] = static_cast<float>(from[i]);
    return out;
#endif
}

inline void store_halves(std::uint16_t* to, Lanes value) {
#if defined(__AVX512F__)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(to),
                        _mm512_maskz_cvtps_ph(kEveryLane, value, 0));
#elif defined(__AVX2__)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), _mm256_cvtps_ph(value, 0));
#else
    for (std::int64_t i = 0; i < kLanes; ++i) to[i] = float_to_half(value[i]);
#endif
}

}  // namespace
