// The launch that finds the largest value of a row.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "strata/backend/ops.hpp"

namespace strata::cuda {

// Enough to have a vocabulary's logits under way at once: 2,048 values each.
constexpr int kLargestBlocksMax = 128;

struct LargestScratch {
    uint2* found = nullptr;       // [kLargestBlocksMax]: order and index
    unsigned* counter = nullptr;  // zero, and left zero by every launch
};

// Ops::find_largest(). `index` may be page-locked memory of the host.
void launch_find_largest(cudaStream_t stream, Rows x, const LargestScratch& scratch,
                         std::int32_t* index);

}  // namespace strata::cuda
