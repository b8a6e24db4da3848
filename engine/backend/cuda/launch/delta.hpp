// Launches of the recurrent layers' operations (formulas: strata/backend/ops.hpp). The running
// state is read from `step` on the device.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "strata/backend/ops.hpp"

namespace strata::cuda {

struct StepView;

void launch_convolution(cudaStream_t stream, const StepView& step, const ConvolutionShape& shape,
                        Rows u, const float* taps, Rows c);

// Token by token: a row's bits never depend on which rows are in the same step.
void launch_delta_rule(cudaStream_t stream, const StepView& step, const DeltaShape& shape, Rows c,
                       Rows b, Rows alpha, const float* a, const float* dt_bias, Rows o);

void launch_gated_rms_norm(cudaStream_t stream, Rows o, Rows z, std::int64_t head_dim,
                           const float* gain, float epsilon, Rows y);

}  // namespace strata::cuda
