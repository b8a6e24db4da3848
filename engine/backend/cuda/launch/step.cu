#include <cstdint>

#include "engine/backend/cuda/launch/launch.cuh"
#include "engine/backend/cuda/launch/step.hpp"
#include "strata/core/invariant.hpp"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;

// Past every cache: the host writes the same places for every step.
__global__ void take_step_kernel(const int4* host, int4* device, std::int64_t count) {
    wait_for_previous();
    const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
    if (at < count) device[at] = __ldcv(host + at);
}

}  // namespace

void launch_take_step(cudaStream_t stream, const void* host, void* device, std::size_t bytes) {
    STRATA_INVARIANT(bytes % sizeof(int4) == 0);
    const auto count = static_cast<std::int64_t>(bytes / sizeof(int4));
    const auto blocks = static_cast<unsigned>(ceil_div<std::int64_t>(count, kThreads));
    launch(stream, dim3(blocks), dim3(kThreads), 0, take_step_kernel,
           static_cast<const int4*>(host), static_cast<int4*>(device), count);
}

}  // namespace strata::cuda
