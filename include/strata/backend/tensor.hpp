// What a device holds: element types, raw buffers, weight matrices, activations.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace strata {

// Element types of stored tensors (GGUF names). Activations are always f32; K/V rows:
// kv_rows.hpp.
enum class ElementType : std::uint8_t {
    f32,
    f16,
    bf16,
    q8_0,
    q4_0,
    q4_k,
    q5_k,
    q6_k,
    iq4_nl,
    iq3_s,
    mxfp4,
    nvfp4,
};

struct BlockShape {
    std::size_t elements;  // elements of one block along the contiguous dimension
    std::size_t bytes;
};
[[nodiscard]] constexpr BlockShape block_shape(ElementType type) {
    constexpr BlockShape kShapes[] = {{1, 4},   {1, 2},     {1, 2},     {32, 34},
                                      {32, 18}, {256, 144}, {256, 176}, {256, 210},
                                      {32, 18}, {256, 110}, {32, 17},   {64, 36}};
    return kShapes[static_cast<std::size_t>(type)];
}
[[nodiscard]] constexpr const char* element_type_name(ElementType type) {
    constexpr const char* kNames[] = {"F32",  "F16",  "BF16",   "Q8_0",  "Q4_0",  "Q4_K",
                                      "Q5_K", "Q6_K", "IQ4_NL", "IQ3_S", "MXFP4", "NVFP4"};
    return kNames[static_cast<std::size_t>(type)];
}

// Memory on a device. Move-only; freed with the last owner. `address` is a device address: only the
// device that allocated it may read or write through it.
class Buffer {
  public:
    Buffer() = default;
    Buffer(void* address, std::size_t bytes, std::shared_ptr<void> owner)
        : address_(address), bytes_(bytes), owner_(std::move(owner)) {}
    void* address() const { return address_; }
    float* f32() const { return static_cast<float*>(address_); }
    std::size_t bytes() const { return bytes_; }
    explicit operator bool() const { return address_ != nullptr; }

  private:
    void* address_ = nullptr;
    std::size_t bytes_ = 0;
    std::shared_ptr<void> owner_;
};

// A weight tensor as the file stores it: `experts` matrices of `rows` x `cols`, each row `cols`
// contiguous elements (GGUF ne0 = cols, ne1 = rows, ne2 = experts). The bytes are borrowed.
struct StoredTensor {
    ElementType type = ElementType::f32;
    std::int64_t cols = 0;
    std::int64_t rows = 1;
    std::int64_t experts = 1;
    std::span<const std::byte> bytes;
};

// A weight on a device, in whatever layout the device likes best. Made by Device::upload.
class Weight {
  public:
    virtual ~Weight() = default;
    std::int64_t cols = 0;
    std::int64_t rows = 0;
    std::int64_t experts = 1;
    ElementType type = ElementType::f32;
    float scale = 1.0F;  // multiplies a product (NVFP4's companion tensor); 1 otherwise
    std::vector<float> expert_scales;  // one scale per expert instead; empty = `scale` for all

    float scale_of(std::int64_t expert) const {
        return expert_scales.empty() ? scale : expert_scales[static_cast<std::size_t>(expert)];
    }
};

// `rows` rows of `cols` contiguous f32 values on the device: one row per token.
struct Rows {
    float* values = nullptr;
    std::int64_t rows = 0;
    std::int64_t cols = 0;
};

}  // namespace strata
