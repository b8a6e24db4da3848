// The launch that brings a step to the device.
#pragma once

#include <cstddef>

#include <cuda_runtime.h>

namespace strata::cuda {

// Copies `bytes` (a multiple of 16) of page-locked host memory to the device, both on 16-byte
// boundaries. It does not let the next kernel start before its end: kernels read the step before
// they wait for the ones before them. A kernel, as it costs a step less than a copy by the copy
// engine and an event behind it, and is a part of the step's graph.
void launch_take_step(cudaStream_t stream, const void* host, void* device, std::size_t bytes);

}  // namespace strata::cuda
