#include <algorithm>
#include <limits>

#include "engine/backend/cuda/kernels/largest.cuh"
#include "engine/backend/cuda/launch/largest.hpp"
#include "engine/backend/cuda/launch/launch.cuh"
#include "strata/core/invariant.hpp"

namespace strata::cuda {

void launch_find_largest(cudaStream_t stream, Rows x, const LargestScratch& scratch,
                         std::int32_t* index) {
    STRATA_INVARIANT(x.rows == 1 && x.cols >= 1 &&
                     x.cols <= std::numeric_limits<std::int32_t>::max());
    const bool aligned = reinterpret_cast<std::uintptr_t>(x.values) % sizeof(float4) == 0;
    const std::int64_t quads = aligned ? x.cols / 4 : 0;
    const std::int64_t blocks = std::clamp<std::int64_t>(
        ceil_div<std::int64_t>(x.cols, 4 * kLargestBlockQuads), 1, kLargestBlocksMax);
    launch(stream, static_cast<unsigned>(blocks), kLargestThreads, 0, find_largest_kernel, x.values,
           x.cols, quads, scratch, index);
}

}  // namespace strata::cuda
