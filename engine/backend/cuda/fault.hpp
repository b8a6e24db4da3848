// Answers of the CUDA runtime that are not success.
#pragma once

#include <string>

#include <cuda_runtime.h>

#include "strata/backend/device_fault.hpp"

namespace strata::cuda {

inline void check(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    throw DeviceFault(std::string(what) + ": " + cudaGetErrorString(status));
}

}  // namespace strata::cuda
