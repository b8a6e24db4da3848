// Answers of the CUDA runtime that are not success.
#pragma once

#include <stdexcept>
#include <string>

#include <cuda_runtime.h>

namespace strata::cuda {

// The device or its driver failed: what it had enqueued is lost. Out of memory is none of these.
class DeviceFault : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

inline void check(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    throw DeviceFault(std::string(what) + ": " + cudaGetErrorString(status));
}

}  // namespace strata::cuda
