// Launches of products with one row of activations, in the form that writing a token uses: the row
// is normed, if it is to be, and brought into the weights' form by every block for itself, so that
// nothing has to run in between.
#pragma once

#include <cstdint>
#include <span>

#include <cuda_runtime.h>

#include "engine/backend/cuda/launch/products.hpp"

namespace strata::cuda {

struct RowInput {
    const float* x = nullptr;  // [cols]
    std::int64_t cols = 0;
    const float* gain = nullptr;  // [cols]: RMS(x, gain) is what is multiplied; null: x
    float epsilon = 0.0F;
};

// True when the kernel takes rows of this type and length.
[[nodiscard]] bool takes_row(ElementType type, std::int64_t cols);

// And whether it norms rows of this length.
[[nodiscard]] bool takes_normed_row(std::int64_t cols);

// Parts of one type.
void launch_row_products(cudaStream_t stream, int multiprocessors, ElementType type,
                         const RowInput& input, std::span<const ProductPart> parts);

// Parts of two types, `first` and `second`, in one launch: for the mixes that takes_row_of() knows.
[[nodiscard]] bool takes_row_of(ElementType first, ElementType second, std::int64_t cols);
void launch_row_products_of(cudaStream_t stream, int multiprocessors, const RowInput& input,
                            ElementType first_type, std::span<const ProductPart> first,
                            ElementType second_type, std::span<const ProductPart> second);

// gate.y = silu(gate) * up; both of one type.
void launch_gated_row_product(cudaStream_t stream, int multiprocessors, ElementType type,
                              const RowInput& input, const ProductPart& gate,
                              const ProductPart& up);

}  // namespace strata::cuda
