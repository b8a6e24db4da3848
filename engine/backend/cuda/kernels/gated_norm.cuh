// y = RMS(o, gain) * silu(z), a warp for each head of a row. y may be o: a lane writes only what it
// alone has read.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/launch/launch.cuh"

namespace strata::cuda {

constexpr int kGatedNormWarps = 4;  // of a block

struct GatedNorm {
    const float* o;
    const float* z;
    const float* gain;
    float* y;
    std::int64_t heads;  // of all rows together
    std::int64_t head_dim;
    float epsilon;
};

__device__ __forceinline__ float gated(float o, float factor, float gain, float z) {
    return o * factor * gain * silu(z);
}

// head_dim = 128: a lane holds four elements.
__global__ void __launch_bounds__(kWarp* kGatedNormWarps) gated_norm_128_kernel(GatedNorm of) {
    const int lane = threadIdx.x % kWarp;
    const float4 gain = reinterpret_cast<const float4*>(of.gain)[lane];
    let_next_start();
    wait_for_previous();
    const std::int64_t head =
        static_cast<std::int64_t>(blockIdx.x) * kGatedNormWarps + threadIdx.x / kWarp;
    if (head >= of.heads) return;
    const std::int64_t at = head * kWarp + lane;
    const float4 o = reinterpret_cast<const float4*>(of.o)[at];
    const float4 z = reinterpret_cast<const float4*>(of.z)[at];
    const float squares = warp_sum(o.x * o.x + o.y * o.y + o.z * o.z + o.w * o.w);
    const float factor = 1.0F / sqrtf(squares / static_cast<float>(of.head_dim) + of.epsilon);
    reinterpret_cast<float4*>(of.y)[at] =
        make_float4(gated(o.x, factor, gain.x, z.x), gated(o.y, factor, gain.y, z.y),
                    gated(o.z, factor, gain.z, z.z), gated(o.w, factor, gain.w, z.w));
}

__global__ void __launch_bounds__(kWarp* kGatedNormWarps) gated_norm_kernel(GatedNorm of) {
    let_next_start();
    wait_for_previous();
    const int lane = threadIdx.x % kWarp;
    const std::int64_t head =
        static_cast<std::int64_t>(blockIdx.x) * kGatedNormWarps + threadIdx.x / kWarp;
    if (head >= of.heads) return;
    const std::int64_t start = head * of.head_dim;
    float squares = 0.0F;
    for (std::int64_t i = lane; i < of.head_dim; i += kWarp) {
        squares = __fmaf_rn(of.o[start + i], of.o[start + i], squares);
    }
    squares = warp_sum(squares);
    const float factor = 1.0F / sqrtf(squares / static_cast<float>(of.head_dim) + of.epsilon);
    for (std::int64_t i = lane; i < of.head_dim; i += kWarp) {
        of.y[start + i] = gated(of.o[start + i], factor, of.gain[i], of.z[start + i]);
    }
}

}  // namespace strata::cuda
