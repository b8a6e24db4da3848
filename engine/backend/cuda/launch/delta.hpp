// Launches of the recurrent layers' operations (formulas: strata/backend/ops.hpp). The running
// state is read from `step` on the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_runtime.h>

#include "strata/backend/ops.hpp"

namespace strata::cuda {

struct StepView;

void launch_convolution(cudaStream_t stream, const StepView& step, const ConvolutionShape& shape,
                        Rows u, const float* taps, Rows c);

// From this many rows on chunks are worth their fixed cost.
constexpr std::int64_t kDeltaChunkedRowsMin = 32;
// Scratch with which the delta rule of these rows can go in chunks, at most that of
// kDeltaSegmentRows (27 MB with 16 key heads and 32 value heads); 0 if it cannot: heads are not of
// 128, or the current device has no room for it (161 KB of shared memory per block: sm_80, sm_90).
constexpr std::int64_t kDeltaSegmentRows = 1024;
std::size_t delta_chunk_bytes(const DeltaShape& shape, std::int64_t rows);

// In chunks with delta_chunk_bytes() at `scratch`. Without it token by token: then a row's bits
// never depend on which rows are in the same step.
void launch_delta_rule(cudaStream_t stream, const StepView& step, const DeltaShape& shape, Rows c,
                       Rows b, Rows alpha, const float* a, const float* dt_bias, Rows o,
                       void* scratch);

void launch_gated_rms_norm(cudaStream_t stream, Rows o, Rows z, std::int64_t head_dim,
                           const float* gain, float epsilon, Rows y);

}  // namespace strata::cuda
