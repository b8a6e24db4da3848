// Launches on whole rows of activations: norms, sums, gates, changes of form.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "engine/backend/cuda/launch/products.hpp"
#include "strata/backend/ops.hpp"

namespace strata::cuda {

// What a row is written as besides f32, for the product that reads it next.
struct OtherForms {
    QuantisedView quantised;  // no codes: not wanted. Else the columns are a multiple of 32
    void* bf16 = nullptr;     // [rows][cols]; null: not wanted
};

// y = RMS(x, gain); y may be x.
void launch_rms_norm(cudaStream_t stream, Rows x, const float* gain, float epsilon, Rows y,
                     const OtherForms& forms);

// x[t] += v.
void launch_add_to_rows(cudaStream_t stream, Rows x, const float* v);

// gate = silu(gate) * up, element by element, in place; and the other forms.
void launch_gate_rows(cudaStream_t stream, Rows gate, const float* up, const OtherForms& forms);

void launch_to_bf16(cudaStream_t stream, Rows x, void* bf16);

// What a mixture's parts add up to: y[t] += sum_k weights[t][k] * results[t * used + k], in order
// of k, plus the shared expert's row sigmoid(shared_input[t] . shared_gain) times (no gain: once).
struct MixtureSum {
    const float* results = nullptr;  // [rows * used][cols]
    const float* weights = nullptr;  // [rows][used]
    std::int64_t used = 0;
    const float* shared = nullptr;        // [rows][cols]; null: none
    const float* shared_input = nullptr;  // [rows][shared_cols]
    const float* shared_gain = nullptr;   // [shared_cols]
    std::int64_t shared_cols = 0;
};
void launch_add_mixture(cudaStream_t stream, const MixtureSum& sum, Rows y);

}  // namespace strata::cuda
