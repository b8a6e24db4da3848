// Launches of the experts of one token, in the form that writing uses: weights are quantised, the
// hidden values go from the first launch to the second as codes.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "engine/backend/cuda/launch/products.hpp"

namespace strata::cuda {

// hidden[rank] = silu(gate x) * (up x) of the token's expert of that rank.
struct RowHidden {
    const std::int32_t* experts = nullptr;  // [used]
    RoutedWeight gate;
    RoutedWeight up;
    std::int64_t cols = 0;  // of x
    QuantisedView x;
    QuantisedView hidden;  // [used][hidden values]
};

// y += the sum over ranks of weights[rank] * (down hidden[rank]).
struct RowResult {
    const std::int32_t* experts = nullptr;  // [used]
    const float* weights = nullptr;         // [used]
    int used = 0;
    RoutedWeight down;
    std::int64_t rows = 0;
    std::int64_t cols = 0;  // hidden values of an expert
    QuantisedView hidden;
    float* y = nullptr;  // [rows]
};

// True when the kernels take these types and sizes.
[[nodiscard]] bool takes_row_experts(ElementType gate, ElementType up, ElementType down,
                                     std::int64_t cols, std::int64_t hidden);

// `width`: hidden values of an expert.
void launch_row_hidden(cudaStream_t stream, ElementType type, const RowHidden& work,
                       std::int64_t used, std::int64_t width);
void launch_row_result(cudaStream_t stream, ElementType type, const RowResult& work);

}  // namespace strata::cuda
