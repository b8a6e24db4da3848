// Values of weights: a row of an embedding table, panels of a matrix for the library's products.
#pragma once

#include <cuda_bf16.h>

#include "engine/backend/cuda/kernels/weight_groups.cuh"

namespace strata::cuda {

template <ElementType kType>
__device__ __forceinline__ float float_element(const std::uint8_t* matrix, std::int64_t index) {
    if constexpr (kType == ElementType::f32) {
        return reinterpret_cast<const float*>(matrix)[index];
    } else if constexpr (kType == ElementType::f16) {
        return __half2float(reinterpret_cast<const __half*>(matrix)[index]);
    } else {
        return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(matrix)[index]);
    }
}

// One block per row of x.
template <ElementType kType>
__global__ void embed_kernel(StepView step, Planes planes, float scale, float* x,
                             std::int64_t cols) {
    let_next_start();
    wait_for_previous();
    const std::int64_t row = step.ids[blockIdx.x];
    float* out = x + static_cast<std::int64_t>(blockIdx.x) * cols;
    if constexpr (is_float(kType)) {
        for (std::int64_t c = threadIdx.x; c < cols; c += blockDim.x) {
            out[c] = scale * float_element<kType>(planes.codes, row * cols + c);
        }
    } else {
        const std::int64_t groups = cols / kGroupElements;
        for (std::int64_t g = threadIdx.x; g < groups; g += blockDim.x) {
            RawGroup<kType> raw;
            raw.load(planes, static_cast<std::uint32_t>(row * groups + g));
            const Group group = decode_group<kType>(raw, kGrid.data());
            auto* to = reinterpret_cast<float4*>(out + g * kGroupElements);
#pragma unroll
            for (int q = 0; q < kGroupElements / 4; ++q) {
                to[q] = make_float4(
                    scale * element_of(group, 4 * q), scale * element_of(group, 4 * q + 1),
                    scale * element_of(group, 4 * q + 2), scale * element_of(group, 4 * q + 3));
            }
        }
    }
}

// One thread per group of a quantised weight; 64 contiguous bytes out.
template <ElementType kType, class Out>
__global__ void unpack_kernel(Planes planes, std::int64_t first_group, std::int64_t count,
                              Out* out) {
    const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
    RawGroup<kType> raw;
    if (at < count) raw.load(planes, static_cast<std::uint32_t>(first_group + at));
    let_next_start();
    wait_for_previous();
    if (at >= count) return;
    const Group group = decode_group<kType>(raw, kGrid.data());
    alignas(16) Out values[kGroupElements];
#pragma unroll
    for (int e = 0; e < kGroupElements; ++e) values[e] = static_cast<Out>(element_of(group, e));
    auto* to = reinterpret_cast<uint4*>(out + at * kGroupElements);
    const auto* from = reinterpret_cast<const uint4*>(values);
#pragma unroll
    for (int i = 0; i < static_cast<int>(sizeof(values) / sizeof(uint4)); ++i) to[i] = from[i];
}

// The same for float weights, element by element.
template <ElementType kType, class Out>
__global__ void convert_kernel(const std::uint8_t* matrix, std::int64_t first, std::int64_t count,
                               Out* out) {
    let_next_start();
    wait_for_previous();
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += stride) {
        out[i] = static_cast<Out>(float_element<kType>(matrix, first + i));
    }
}

}  // namespace strata::cuda
