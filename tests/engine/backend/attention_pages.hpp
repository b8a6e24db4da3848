// Pages of one attention layer on a device, for tests of attention: filled through the operation
// that stores, and read back as kv_rows.hpp says they lie.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <span>
#include <vector>

#include "tests/engine/backend/ops_fixture.hpp"

namespace strata::ops_fixture {

inline KvRows rows_of(const AttentionShape& shape, bool value) {
    return value ? shape.v_rows() : shape.k_rows();
}

inline float half_value(std::uint16_t half) {
    const int exponent = half >> 10 & 31;
    const float mantissa = static_cast<float>(half & 1023);
    const float size =
        exponent == 0 ? std::ldexp(mantissa, -24) : std::ldexp(1024.0F + mantissa, exponent - 25);
    return (half & 0x8000U) != 0 ? -size : size;
}

template <class T>
T value_at(const std::vector<std::byte>& bytes, std::size_t offset) {
    T out;
    std::memcpy(&out, bytes.data() + offset, sizeof out);
    return out;
}

// Pages of one attention layer that is the second of two: offsets must count. What nobody has
// stored is NaN, as f32, f16 and a scale.
class Pages {
  public:
    Pages(Device& device, const AttentionShape& shape, std::int64_t count) : device_(device) {
        const std::vector<std::byte> poison(page_bytes(shape), std::byte{0xFF});
        for (std::int64_t p = 0; p < count; ++p) {
            buffers_.push_back(allocate(device, poison.size()));
            addresses_.push_back(buffers_.back().address());
            device.copy_from_host(addresses_.back(), poison.data(), poison.size());
            device.synchronize();
        }
    }
    std::span<void* const> addresses() const { return addresses_; }

    // The bytes of the K or V row of a position.
    std::vector<std::byte> raw(const AttentionShape& shape, Position position, bool value) const {
        std::vector<std::byte> out(rows_of(shape, value).row_bytes());
        const std::size_t offset = (value ? shape.v_offset : shape.k_offset) +
                                   static_cast<std::size_t>(position % kPageTokens) * out.size();
        const auto page = static_cast<std::size_t>(position / kPageTokens);
        device_.copy_to_host(out.data(), static_cast<std::byte*>(addresses_[page]) + offset,
                             out.size());
        device_.synchronize();
        return out;
    }
    // The same as numbers; a code times its scale has up to 32 bits, so they are f64.
    std::vector<double> row(const AttentionShape& shape, Position position, bool value) const {
        const KvRows rows = rows_of(shape, value);
        const std::vector<std::byte> bytes = raw(shape, position, value);
        std::vector<double> out;
        for (std::int64_t i = 0; i < rows.heads * rows.dim; ++i) {
            const auto at = static_cast<std::size_t>(i) * kv_element_bytes(rows.type);
            if (rows.type == KvType::f32) {
                out.push_back(static_cast<double>(value_at<float>(bytes, at)));
            } else if (rows.type == KvType::f16) {
                out.push_back(static_cast<double>(half_value(value_at<std::uint16_t>(bytes, at))));
            } else {
                const float scale = value_at<float>(bytes, rows.scale_offset(i / rows.dim));
                out.push_back(static_cast<double>(value_at<std::int8_t>(bytes, at)) *
                              static_cast<double>(scale));
            }
        }
        return out;
    }

    static void place(AttentionShape& shape) {
        constexpr auto kRows = static_cast<std::size_t>(kPageTokens);
        const std::size_t k = kRows * shape.k_rows().row_bytes();
        shape.k_offset = k + kRows * shape.v_rows().row_bytes();
        shape.v_offset = shape.k_offset + k;
    }

  private:
    static std::size_t page_bytes(const AttentionShape& shape) {
        return shape.v_offset + static_cast<std::size_t>(kPageTokens) * shape.v_rows().row_bytes();
    }

    Device& device_;
    std::vector<Buffer> buffers_;
    std::vector<void*> addresses_;
};

inline AttentionShape shape_of(std::int64_t heads, std::int64_t kv_heads, std::int64_t dim,
                               bool gated, KvType kv_type) {
    AttentionShape shape;
    shape.heads = heads;
    shape.kv_heads = kv_heads;
    shape.key_dim = dim;
    shape.value_dim = dim;
    shape.scale = 0.3F;
    shape.gated = gated;
    shape.kv_type = kv_type;
    Pages::place(shape);
    return shape;
}

// Stores K and V of `count` positions in steps of at most `step` tokens, without norm and rotation.
inline void fill(Device& device, const AttentionShape& shape, const Pages& pages,
                 const std::vector<float>& k, const std::vector<float>& v, std::int64_t step) {
    const std::int64_t cols = shape.kv_heads * shape.key_dim;
    const std::int64_t count = static_cast<std::int64_t>(k.size()) / cols;
    for (std::int64_t first = 0; first < count; first += step) {
        const std::int64_t rows = std::min(step, count - first);
        const TokenIds ids(static_cast<std::size_t>(rows), 0);
        device.ops().begin({ids, first, pages.addresses(), nullptr});
        const auto part = [&](const std::vector<float>& from) {
            return std::vector<float>(from.begin() + first * cols,
                                      from.begin() + (first + rows) * cols);
        };
        const DeviceRows q(device, rows, shape.heads * shape.query_stride());
        const DeviceRows keys(device, part(k), cols);
        const DeviceRows values(device, part(v), cols);
        device.ops().store_attention_inputs(shape, {}, q, keys, values);
        device.synchronize();
    }
}

}  // namespace strata::ops_fixture
