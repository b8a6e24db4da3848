// The causal convolution of each channel, with the window of earlier rows in the running state.
//
// A thread owns one channel (or four neighbours) of a tile of rows. The threads of the first tile
// alone read the window, and they alone write it, after their last read: no other order is needed.
// A tile has at least kernel - 1 rows, so that later tiles look back into the step only.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/launch/launch.cuh"

namespace strata::cuda {

constexpr int kConvolutionTapsMax = 16;  // released models have 4
constexpr int kConvolutionTile = 32;     // rows of a thread: 3 of 35 are read twice
static_assert(kConvolutionTile >= kConvolutionTapsMax - 1);

struct Convolution {
    const float* u;
    const float* taps;  // [kernel][channels]
    float* c;
    std::int64_t rows;
    std::int64_t channels;
    std::int64_t kernel;
    std::size_t state_offset;
};

__device__ __forceinline__ float* running_floats(const StepView& step, std::size_t offset) {
    return reinterpret_cast<float*>(static_cast<char*>(step.head->running_state) + offset);
}

// One channel, or four that are moved in one access.
template <int kWidth>
struct Channels {
    float of[kWidth];

    __device__ __forceinline__ void load(const float* from) {
        if constexpr (kWidth == 4) {
            const float4 all = *reinterpret_cast<const float4*>(from);
            of[0] = all.x;
            of[1] = all.y;
            of[2] = all.z;
            of[3] = all.w;
        } else {
            of[0] = *from;
        }
    }
    __device__ __forceinline__ void store(float* to) const {
        if constexpr (kWidth == 4) {
            *reinterpret_cast<float4*>(to) = make_float4(of[0], of[1], of[2], of[3]);
        } else {
            *to = of[0];
        }
    }
};

// Four taps: the last rows stay in registers.
template <int kWidth>
__global__ void __launch_bounds__(128) convolve_four_kernel(StepView step, Convolution of) {
    constexpr int kTaps = 4;
    constexpr int kPast = kTaps - 1;
    constexpr int kGroup = 4;  // rows that are loaded before the first is used
    const std::int64_t channel =
        (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kWidth;
    const bool inside = channel < of.channels;
    Channels<kWidth> taps[kTaps];
    if (inside) {
        for (int j = 0; j < kTaps; ++j) taps[j].load(of.taps + j * of.channels + channel);
    }
    let_next_start();
    wait_for_previous();
    if (!inside) return;
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * kConvolutionTile;
    const std::int64_t end = min(first + kConvolutionTile, of.rows);
    float* window = running_floats(step, of.state_offset) + channel;
    const float* u = of.u + channel;
    Channels<kWidth> rows[kPast + kGroup];  // the rows before t, then those from t on
#pragma unroll
    for (int j = 0; j < kPast; ++j) {
        rows[j].load(first == 0 ? window + j * of.channels : u + (first - kPast + j) * of.channels);
    }
    Channels<kWidth> kept[kPast];
    if (first == 0) {
#pragma unroll
        for (int j = 0; j < kPast; ++j) kept[j] = rows[j];
    }
    for (std::int64_t t = first; t < end; t += kGroup) {
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
            if (t + i < end) rows[kPast + i].load(u + (t + i) * of.channels);
        }
#pragma unroll
        for (int i = 0; i < kGroup; ++i) {
            if (t + i >= end) break;
            Channels<kWidth> out;
#pragma unroll
            for (int v = 0; v < kWidth; ++v) {
                float sum = 0.0F;
#pragma unroll
                for (int j = 0; j < kTaps; ++j) {
                    sum = __fmaf_rn(taps[j].of[v], rows[i + j].of[v], sum);
                }
                out.of[v] = silu(sum);
            }
            out.store(of.c + (t + i) * of.channels + channel);
        }
#pragma unroll
        for (int j = 0; j < kPast; ++j) rows[j] = rows[kGroup + j];
    }
    if (first != 0) return;
#pragma unroll
    for (int j = 0; j < kPast; ++j) {
        const std::int64_t row = of.rows - kPast + j;
        Channels<kWidth> value;
        if (row >= 0) {
            value.load(u + row * of.channels);
        } else if (of.rows == 1) {  // row j of the window is row j + rows of the old one
            value = kept[j + 1 < kPast ? j + 1 : j];
        } else {
            value = kept[j + 2 < kPast ? j + 2 : j];
        }
        value.store(window + j * of.channels);
    }
}

// Any number of taps up to kConvolutionTapsMax.
__global__ void __launch_bounds__(128) convolve_kernel(StepView step, Convolution of) {
    let_next_start();
    wait_for_previous();
    const std::int64_t channel = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    if (channel >= of.channels) return;
    const std::int64_t past = of.kernel - 1;
    const std::int64_t first = static_cast<std::int64_t>(blockIdx.y) * kConvolutionTile;
    const std::int64_t end = min(first + kConvolutionTile, of.rows);
    float* window = running_floats(step, of.state_offset) + channel;
    const float* u = of.u + channel;
    for (std::int64_t t = first; t < end; ++t) {
        float sum = 0.0F;
        for (std::int64_t j = 0; j <= past; ++j) {
            const std::int64_t row = t - past + j;
            const float value = row < 0 ? window[(row + past) * of.channels] : u[row * of.channels];
            sum = __fmaf_rn(of.taps[j * of.channels + channel], value, sum);
        }
        of.c[t * of.channels + channel] = silu(sum);
    }
    if (first != 0) return;
    for (std::int64_t j = 0; j < past; ++j) {  // upwards: row j comes from a later row
        const std::int64_t row = of.rows - past + j;
        window[j * of.channels] =
            row < 0 ? window[(row + past) * of.channels] : u[row * of.channels];
    }
}

}  // namespace strata::cuda
