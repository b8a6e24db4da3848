// Weights of every type with random but finite contents, and the float64 sums that products are
// compared with. Used by the matmul tests only.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "engine/backend/cpu/blocks.hpp"
#include "engine/backend/cpu/matmul.hpp"

namespace strata::matmul_cases {

inline const std::vector<ElementType> kAllTypes = {
    ElementType::f32,    ElementType::f16,   ElementType::bf16,  ElementType::q8_0,
    ElementType::q4_0,   ElementType::q4_k,  ElementType::q5_k,  ElementType::q6_k,
    ElementType::iq4_nl, ElementType::iq3_s, ElementType::mxfp4, ElementType::nvfp4};

inline bool is_float(ElementType type) {
    return type == ElementType::f32 || type == ElementType::f16 || type == ElementType::bf16;
}

// Offsets of the f16 scales in a block (Block layouts).
inline std::vector<std::size_t> half_offsets(ElementType type) {
    switch (type) {
        case ElementType::q4_k:
        case ElementType::q5_k:
            return {0, 2};
        case ElementType::q6_k:
            return {208};
        case ElementType::q8_0:
        case ElementType::q4_0:
        case ElementType::iq4_nl:
        case ElementType::iq3_s:
            return {0};
        case ElementType::f32:
        case ElementType::f16:
        case ElementType::bf16:
        case ElementType::mxfp4:
        case ElementType::nvfp4:
            break;
    }
    return {};
}

inline void put_half(std::byte* to, float value) {
    const std::uint16_t bits = f32_to_f16(value);
    std::memcpy(to, &bits, sizeof bits);
}

struct Stored {
    std::vector<std::byte> bytes;
    StoredTensor tensor;
    std::vector<float> values;  // decoded: experts x rows x cols
};

inline void fill_floats(ElementType type, std::mt19937& random, std::vector<std::byte>& bytes) {
    std::normal_distribution<float> normal(0.0F, 1.0F);
    const std::size_t width = block_shape(type).bytes;
    for (std::size_t at = 0; at < bytes.size(); at += width) {
        const float value = normal(random);
        if (type == ElementType::f32) {
            std::memcpy(bytes.data() + at, &value, sizeof value);
        } else if (type == ElementType::f16) {
            put_half(bytes.data() + at, value);
        } else {
            const std::uint16_t bits = f32_to_bf16(value);
            std::memcpy(bytes.data() + at, &bits, sizeof bits);
        }
    }
}

inline void fill_blocks(ElementType type, std::mt19937& random, std::vector<std::byte>& bytes) {
    std::uniform_int_distribution<int> any_byte(0, 255);
    std::uniform_real_distribution<float> scale(-0.05F, 0.05F);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(any_byte(random));
    const std::size_t width = block_shape(type).bytes;
    for (std::size_t at = 0; at < bytes.size(); at += width) {
        for (const std::size_t offset : half_offsets(type)) {
            put_half(bytes.data() + at + offset, scale(random));
        }
        if (type == ElementType::mxfp4) {  // exponents around 2^-3: sums stay in range
            bytes[at] = static_cast<std::byte>(122 + any_byte(random) % 4);
        }
    }
}

inline std::unique_ptr<Stored> make_stored(ElementType type, std::int64_t cols, std::int64_t rows,
                                           std::int64_t experts, unsigned seed) {
    auto stored = std::make_unique<Stored>();
    const BlockShape shape = block_shape(type);
    const auto elements = static_cast<std::size_t>(cols * rows * experts);
    stored->bytes.resize(elements / shape.elements * shape.bytes);
    std::mt19937 random(seed);
    if (is_float(type)) {
        fill_floats(type, random, stored->bytes);
    } else {
        fill_blocks(type, random, stored->bytes);
    }
    stored->tensor = {type, cols, rows, experts, stored->bytes};
    stored->values.resize(elements);
    decode_blocks(type, stored->bytes.data(), elements, stored->values.data());
    return stored;
}

inline std::unique_ptr<PackedWeight> pack(const Stored& stored, Isa isa) {
    auto packed = pack_weight(stored.tensor, isa);
    if (!packed) return nullptr;
    return std::unique_ptr<PackedWeight>(
        static_cast<PackedWeight*>(std::move(packed).value().release()));
}

// Activations of very different sizes, so that scales of blocks matter; some blocks are all zero.
inline std::vector<float> make_rows(std::int64_t rows, std::int64_t cols, unsigned seed) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0.0F, 1.0F);
    std::vector<float> x(static_cast<std::size_t>(rows * cols));
    for (std::size_t i = 0; i < x.size(); ++i) {
        const std::size_t block = i / 32;
        const float size =
            block % 7 == 3 ? 0.0F : std::ldexp(1.0F, static_cast<int>(block % 5) - 2);
        x[i] = normal(random) * size;
    }
    return x;
}

// The activations as the int8 products see them: per block of 32, whole steps of largest / 127.
inline std::vector<double> rounded_rows(const std::vector<float>& x, std::int64_t cols) {
    std::vector<double> out(x.size());
    for (std::size_t row = 0; row < x.size(); row += static_cast<std::size_t>(cols)) {
        for (std::size_t k = 0; k < static_cast<std::size_t>(cols); k += 32) {
            float largest = 0.0F;
            for (std::size_t j = 0; j < 32; ++j)
                largest = std::max(largest, std::fabs(x[row + k + j]));
            const float inverse = largest > 0.0F ? 127.0F / largest : 0.0F;
            for (std::size_t j = 0; j < 32; ++j) {
                const double code = std::nearbyint(x[row + k + j] * inverse);
                out[row + k + j] = code * static_cast<double>(largest / 127.0F);
            }
        }
    }
    return out;
}

struct Sum {
    double value = 0;
    double size = 0;  // sum of absolute products: what rounding errors are relative to
};

template <class X>
Sum dot(const float* weights, const X* x, std::int64_t cols) {
    Sum sum;
    for (std::int64_t k = 0; k < cols; ++k) {
        const double product = static_cast<double>(weights[k]) * static_cast<double>(x[k]);
        sum.value += product;
        sum.size += std::fabs(product);
    }
    return sum;
}

}  // namespace strata::matmul_cases
