#include <algorithm>

#include <cuda_bf16.h>

#include "engine/backend/cuda/kernels/products.cuh"
#include "engine/backend/cuda/launch/launch.cuh"
#include "engine/backend/cuda/launch/rows.hpp"
#include "strata/core/invariant.hpp"

namespace strata::cuda {
namespace {

constexpr int kThreads = 256;
constexpr int kNormThreads = 512;  // for any number of rows, as the order of the sum depends on it
constexpr std::int64_t kBlocksMax = 4096;  // more blocks than this only queue up

unsigned blocks_of(std::int64_t count) {
    return static_cast<unsigned>(
        std::clamp<std::int64_t>(ceil_div<std::int64_t>(count, kThreads), 1, kBlocksMax));
}

// The sum over the block's threads, in every thread; one fixed order.
__device__ float block_sum(float value) {
    __shared__ float sums[kNormThreads / kWarp];
    value = warp_sum(value);
    if (threadIdx.x % kWarp == 0) sums[threadIdx.x / kWarp] = value;
    __syncthreads();
    const int warps = static_cast<int>(blockDim.x) / kWarp;
    const int lane = threadIdx.x % kWarp;
    return warp_sum(lane < warps ? sums[lane] : 0.0F);
}

__device__ __forceinline__ void write_forms(const OtherForms& forms, float value, std::int64_t at) {
    if (forms.quantised.codes != nullptr)
        quantise_group(value, at / kGroupElements, forms.quantised);
    if (forms.bf16 != nullptr)
        static_cast<__nv_bfloat16*>(forms.bf16)[at] = __float2bfloat16(value);
}

// One block per row. A warp's 32 lanes always hold the 32 columns of one group.
__global__ void rms_norm_kernel(const float* x, std::int64_t cols, const float* gain, float epsilon,
                                float* y, OtherForms forms) {
    let_next_start();
    wait_for_previous();
    const std::int64_t start = blockIdx.x * cols;
    float squares = 0.0F;
    for (std::int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
        squares = __fmaf_rn(x[start + c], x[start + c], squares);
    }
    const float mean = block_sum(squares) / static_cast<float>(cols);
    const float factor = 1.0F / sqrtf(mean + epsilon);
    for (std::int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
        const float value = x[start + c] * factor * gain[c];
        y[start + c] = value;
        write_forms(forms, value, start + c);
    }
}

__global__ void add_to_rows_kernel(float* x, std::int64_t count, std::int64_t cols,
                                   const float* v) {
    let_next_start();
    wait_for_previous();
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += stride) {
        x[i] += v[i % cols];
    }
}

__global__ void gate_rows_kernel(float* gate, const float* up, std::int64_t count,
                                 OtherForms forms) {
    let_next_start();
    wait_for_previous();
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += stride) {
        const float value = __fmul_rn(silu(gate[i]), up[i]);
        gate[i] = value;
        write_forms(forms, value, i);
    }
}

__global__ void to_bf16_kernel(const float* x, std::int64_t count, __nv_bfloat16* out) {
    let_next_start();
    wait_for_previous();
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += stride) {
        out[i] = __float2bfloat16(x[i]);
    }
}

// One block per row.
__global__ void add_mixture_kernel(MixtureSum sum, float* y, std::int64_t cols) {
    let_next_start();
    wait_for_previous();
    const std::int64_t t = blockIdx.x;
    float share = 1.0F;
    if (sum.shared_gain != nullptr) {
        float dot = 0.0F;
        for (std::int64_t c = threadIdx.x; c < sum.shared_cols; c += blockDim.x) {
            dot = __fmaf_rn(sum.shared_input[t * sum.shared_cols + c], sum.shared_gain[c], dot);
        }
        share = sigmoid(block_sum(dot));
    }
    for (std::int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
        float total = 0.0F;
        for (std::int64_t k = 0; k < sum.used; ++k) {
            const std::int64_t pair = t * sum.used + k;
            total = __fmaf_rn(sum.weights[pair], sum.results[pair * cols + c], total);
        }
        if (sum.shared != nullptr) total = __fmaf_rn(share, sum.shared[t * cols + c], total);
        y[t * cols + c] += total;
    }
}

}  // namespace

void launch_rms_norm(cudaStream_t stream, Rows x, const float* gain, float epsilon, Rows y,
                     const OtherForms& forms) {
    STRATA_INVARIANT(forms.quantised.codes == nullptr || x.cols % kGroupElements == 0);
    launch(stream, static_cast<unsigned>(x.rows), kNormThreads, 0, rms_norm_kernel, x.values,
           x.cols, gain, epsilon, y.values, forms);
}

void launch_add_to_rows(cudaStream_t stream, Rows x, const float* v) {
    const std::int64_t count = x.rows * x.cols;
    launch(stream, blocks_of(count), kThreads, 0, add_to_rows_kernel, x.values, count, x.cols, v);
}

void launch_gate_rows(cudaStream_t stream, Rows gate, const float* up, const OtherForms& forms) {
    STRATA_INVARIANT(forms.quantised.codes == nullptr || gate.cols % kGroupElements == 0);
    const std::int64_t count = gate.rows * gate.cols;
    launch(stream, blocks_of(count), kThreads, 0, gate_rows_kernel, gate.values, up, count, forms);
}

void launch_to_bf16(cudaStream_t stream, Rows x, void* bf16) {
    const std::int64_t count = x.rows * x.cols;
    launch(stream, blocks_of(count), kThreads, 0, to_bf16_kernel, x.values, count,
           static_cast<__nv_bfloat16*>(bf16));
}

void launch_add_mixture(cudaStream_t stream, const MixtureSum& sum, Rows y) {
    launch(stream, static_cast<unsigned>(y.rows), kNormThreads, 0, add_mixture_kernel, sum,
           y.values, y.cols);
}

}  // namespace strata::cuda
