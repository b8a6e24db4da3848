// Synthetic models: sizes of released models (models as `NAME:TYPE`, e.g. "qwen3-8b:q4_k"), and the
// metadata and tensors that a file of that size has. Owns the table and the naming; what the bytes
// of a tensor are is patterns.hpp's, where they lie image.hpp's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "strata/backend/tensor.hpp"
#include "strata/core/result.hpp"

namespace strata::bench {

// What the values of a tensor are for: random ones must be of a size with which a model computes
// finite numbers.
enum class Content : std::uint8_t {
    matrix,  // mean 0, deviation about 0.02
    gain,    // of a norm: around 1
    decay,   // ssm_a: below 0
    dt_bias,
    taps,  // of a convolution
};

struct SyntheticTensor {
    std::string name;
    std::vector<std::uint64_t> dims;  // contiguous dimension first
    ElementType type = ElementType::f32;
    Content content = Content::matrix;

    std::size_t bytes() const;
};

struct SyntheticKey {
    std::string name;
    std::variant<std::string, std::uint32_t, float> value;
};

struct SyntheticModel {
    std::vector<SyntheticKey> keys;
    std::vector<SyntheticTensor> tensors;

    std::uint64_t weights_bytes() const;
};

// The model called `name`; the refusal of another name lists those that there are.
Result<SyntheticModel> synthetic_model(std::string_view name);

// The names of released models, one a line, with the bytes of their weights.
std::string synthetic_list();

// As a model file numbers its tensor types.
std::uint32_t ggml_type_of(ElementType type);

}  // namespace strata::bench
