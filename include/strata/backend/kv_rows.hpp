// How keys and values lie in memory, and nothing about what computes them: both backends, the sizes
// of a conversation and the tests take the layout from here.
//
// A row is what one token has in one attention layer, as keys or as values: `heads` K/V heads of
// `dim` elements. Rows of a page follow each other without gaps (geometry.hpp).
//  1. f32 and f16: the heads one after the other, nothing else.
//  2. int8: one signed code per element, the heads one after the other; then a gap of less than 16
//     zero bytes; then one f32 scale per head. A row is a multiple of 16 bytes long and the scales
//     are its end, so that rows, scales and, where dim is a multiple of 16, heads are aligned.
//  3. An element is code * scale. scale = largest magnitude of the head / 127; code = element *
//     (1 / scale) rounded to the nearest integer, ties to even: -127 .. 127.
//  4. A head whose scale would be below the smallest normal f32 has the scale 0 and codes 0.
//  5. A head with a NaN or an infinity has the scale NaN and codes 0: each of its elements is NaN.
//  6. Storing a row writes all of its bytes: equal rows are equal bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

namespace strata {

enum class KvType : std::uint8_t { f32, f16, int8 };
inline constexpr KvType kKvTypes[] = {KvType::f32, KvType::f16, KvType::int8};  // largest first

// As --kv has it.
[[nodiscard]] constexpr const char* kv_type_name(KvType type) {
    constexpr const char* kNames[] = {"f32", "f16", "int8"};
    return kNames[static_cast<std::size_t>(type)];
}
[[nodiscard]] constexpr std::size_t kv_element_bytes(KvType type) {
    constexpr std::size_t kBytes[] = {4, 2, 1};
    return kBytes[static_cast<std::size_t>(type)];
}

inline constexpr float kKvCodeMax = 127.0F;
inline constexpr float kKvScaleMin = std::numeric_limits<float>::min();
inline constexpr std::size_t kKvRowAlignment = 16;  // of int8 rows; bytes

struct KvRows {
    KvType type = KvType::f16;
    std::int64_t heads = 0;
    std::int64_t dim = 0;

    // From a row's start to a head's elements; head `heads`: to the end of all elements.
    constexpr std::size_t head_offset(std::int64_t head) const {
        return static_cast<std::size_t>(head * dim) * kv_element_bytes(type);
    }
    constexpr std::size_t row_bytes() const {
        const std::size_t elements = head_offset(heads);
        if (type != KvType::int8) return elements;
        return (elements + scales_bytes() + kKvRowAlignment - 1) / kKvRowAlignment *
               kKvRowAlignment;
    }
    // From a row's start to a head's scale. int8 alone.
    constexpr std::size_t scale_offset(std::int64_t head) const {
        return row_bytes() - scales_bytes() + static_cast<std::size_t>(head) * sizeof(float);
    }

  private:
    constexpr std::size_t scales_bytes() const {
        return static_cast<std::size_t>(heads) * sizeof(float);
    }
};

}  // namespace strata
