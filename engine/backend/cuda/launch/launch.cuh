// How a kernel is started, and what every kernel and every launch function of this room agrees on.
//
//  1. A launch function checks its arguments, chooses the geometry and enqueues on `stream`; it
//     never waits and never reads device memory: a step of one token is recorded into a graph and
//     replayed with other ids, positions and pages.
//  2. What changes from step to step is read by the kernels from a StepView's device memory.
//  3. Every kernel calls wait_for_previous() before it reads or writes anything that another
//     kernel touches: it may start while the kernel before it still runs (programmatic dependent
//     launch), so that its start-up is hidden. What it reads before must be constant: weights; or
//     the step, which is there before any other kernel of it starts (launch/step.hpp).
//  4. Results never depend on the order in which blocks run: no floating-point atomics.
#pragma once

#include <cstddef>

#include <cuda_runtime.h>

#include "engine/backend/cuda/fault.hpp"
#include "engine/backend/cuda/launch/step_view.hpp"

namespace strata::cuda {

__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
    cudaGridDependencySynchronize();
#endif
}
// Lets the next kernel start its prologue; its wait_for_previous() still waits for this one's end.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
    cudaTriggerProgrammaticLaunchCompletion();
#endif
}

// Enqueues kernel<<<grid, block, shared_bytes>>>(arguments...).
template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, dim3 grid, dim3 block, std::size_t shared_bytes,
            void (*kernel)(Parameters...), Arguments... arguments) {
    // More than 48 KiB has to be asked for, what the kernel itself declares (up to 4 KiB) included.
    constexpr std::size_t kPlainSharedBytesMax = 44 << 10;
    if (shared_bytes > kPlainSharedBytesMax) {
        check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shared_bytes)),
              "shared memory of a kernel");
    }
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = grid;
    config.blockDim = block;
    config.dynamicSmemBytes = shared_bytes;
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    check(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...),
          "starting a kernel");
}

template <class T>
[[nodiscard]] constexpr T ceil_div(T value, T by) {
    return (value + by - 1) / by;
}

constexpr int kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffU;

__device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) {
        value += __shfl_xor_sync(kAllLanes, value, step);
    }
    return value;
}
__device__ __forceinline__ float warp_max(float value) {
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) {
        value = fmaxf(value, __shfl_xor_sync(kAllLanes, value, step));
    }
    return value;
}

// 1 / RMS of values whose squares sum up to `squares`. To two units of the last place.
__device__ __forceinline__ float inverse_rms(float squares, int count, float epsilon) {
    return rsqrtf(__fdividef(squares, static_cast<float>(count)) + epsilon);
}

__device__ __forceinline__ float sigmoid(float x) {
    return 1.0F / (1.0F + expf(-x));
}
__device__ __forceinline__ float silu(float x) {
    return x * sigmoid(x);
}

}  // namespace strata::cuda
