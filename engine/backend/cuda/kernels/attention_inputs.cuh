// Kernels of what attention needs before it runs: rotary angles, and the preparation (norm,
// rotation) and storing of queries, keys and values. Where rows lie in a page:
// strata/model/geometry.hpp; what a row looks like: strata/backend/kv_rows.hpp.
#pragma once

#include <cstddef>
#include <cstdint>

#include <cuda_fp16.h>

#include "engine/backend/cuda/kernels/coded_row.cuh"
#include "engine/backend/cuda/launch/launch.cuh"
#include "strata/backend/ops.hpp"
#include "strata/core/types.hpp"

namespace strata::cuda {

// One thread per pair of a row. In f64: f32 has no bits left for an angle of a late position. The
// step and the frequencies are there before the kernel before this one has ended.
__global__ void rope_table_kernel(StepView step, std::int64_t count, const double* frequencies,
                                  std::int64_t pairs, float magnitude, float* table) {
    let_next_start();
    const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
    for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
         i < count; i += stride) {
        const double position = static_cast<double>(step.head->first + i / pairs);
        double sine = 0.0;
        double cosine = 0.0;
        sincos(position * frequencies[i % pairs], &sine, &cosine);
        wait_for_previous();
        table[2 * i] = magnitude * static_cast<float>(cosine);
        table[2 * i + 1] = magnitude * static_cast<float>(sine);
    }
}

struct StoreCall {
    StepView step;
    AttentionShape shape;
    QkPreparation preparation;
    std::int64_t query_stride;
    float* q;
    float* k;
    const float* v;
    std::int64_t rows;
    CodedRow coded_k;
    CodedRow coded_v;
};

// Where a head's elements go besides their own place.
struct HeadRow {
    void* stored = nullptr;  // null: nowhere
    bool half = false;

    __device__ void put(std::int64_t d, float value) const {
        if (stored == nullptr) return;
        if (half) {
            static_cast<__half*>(stored)[d] = __float2half_rn(value);
        } else {
            static_cast<float*>(stored)[d] = value;
        }
    }
};

__device__ inline HeadRow stored_head(const StoreCall& call, std::int64_t row, std::int64_t head,
                                      std::int64_t dim, std::size_t offset) {
    const AttentionShape& shape = call.shape;
    const Position position = call.step.head->first + row;
    char* page = static_cast<char*>(call.step.pages[position / kPageTokens]);
    const std::size_t element = shape.kv_type == KvType::f16 ? sizeof(__half) : sizeof(float);
    const std::int64_t at = (position % kPageTokens * shape.kv_heads + head) * dim;
    return {page + offset + static_cast<std::size_t>(at) * element, shape.kv_type == KvType::f16};
}

// One of a pair, turned with `other`; `first`: the one that the sine is taken from. Rounded as it
// says here wherever a head is prepared, like the norm below: a row has the same bytes whatever
// stores it.
__device__ __forceinline__ float turned(float own, float other, bool first, float cosine,
                                        float sine) {
    return first ? __fmaf_rn(own, cosine, -__fmul_rn(other, sine))
                 : __fmaf_rn(other, sine, __fmul_rn(own, cosine));
}

// An element of a head whose RMS has the inverse `factor`.
__device__ __forceinline__ float normed(float value, float factor, float gain) {
    return __fmul_rn(value, __fmul_rn(factor, gain));
}

// One warp: RMS norm (no gain: none), rotation, and the result in place and into `to`. `row`: of
// the rotary table. Lanes sum up the squares of four neighbours at a time.
__device__ inline void prepare_head(const QkPreparation& preparation, const float* gain,
                                    std::int64_t row, std::int64_t dim, float* head,
                                    const HeadRow& to) {
    const int lane = threadIdx.x % kWarp;
    float factor = 1.0F;
    if (gain != nullptr) {
        constexpr int kNeighbours = 4;
        float squares = 0.0F;
        for (std::int64_t d = lane * kNeighbours; d < dim; d += kWarp * kNeighbours) {
#pragma unroll
            for (int e = 0; e < kNeighbours; ++e) {
                if (d + e < dim) squares = __fmaf_rn(head[d + e], head[d + e], squares);
            }
        }
        factor = inverse_rms(warp_sum(squares), static_cast<int>(dim), preparation.epsilon);
    }
    const auto normalised = [&](std::int64_t d) {
        return gain == nullptr ? head[d] : normed(head[d], factor, gain[d]);
    };
    const auto put = [&](std::int64_t d, float value) {
        head[d] = value;
        to.put(d, value);
    };
    const std::int64_t pairs = preparation.rope_pairs;
    const float* angles = preparation.rope_table + 2 * row * pairs;
    const bool adjacent = preparation.pairing == RotaryPairs::adjacent;
#pragma unroll 4
    for (std::int64_t i = lane; i < pairs; i += kWarp) {
        const std::int64_t one = adjacent ? 2 * i : i;
        const std::int64_t other = adjacent ? 2 * i + 1 : i + pairs;
        const float cosine = angles[2 * i];
        const float sine = angles[2 * i + 1];
        const float a = normalised(one);
        const float b = normalised(other);
        put(one, turned(a, b, true, cosine, sine));
        put(other, turned(b, a, false, cosine, sine));
    }
#pragma unroll 4
    for (std::int64_t d = 2 * pairs + lane; d < dim; d += kWarp) put(d, normalised(d));
}

// The int8 row of a row of the step.
__device__ inline char* coded_place(const StoreCall& call, std::int64_t row, std::size_t offset,
                                    const CodedRow& places) {
    const Position position = call.step.head->first + row;
    char* page = static_cast<char*>(call.step.pages[position / kPageTokens]);
    return page + offset + position % kPageTokens * places.bytes;
}

// One warp per head of q, k and v of a row. kCodes: rows are int8.
template <bool kCodes>
__global__ void store_attention_inputs_kernel(StoreCall call) {
    let_next_start();
    wait_for_previous();
    const AttentionShape& shape = call.shape;
    const std::int64_t tasks = shape.heads + 2 * shape.kv_heads;
    const std::int64_t task =
        (static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kWarp;
    const std::int64_t row = task / tasks;
    if (row >= call.rows) return;
    std::int64_t head = task % tasks;
    if (head < shape.heads) {
        float* at = call.q + (row * shape.heads + head) * call.query_stride;
        prepare_head(call.preparation, call.preparation.q_gain, row, shape.key_dim, at, {});
        return;
    }
    head -= shape.heads;
    if (head < shape.kv_heads) {
        float* at = call.k + (row * shape.kv_heads + head) * shape.key_dim;
        if constexpr (kCodes) {
            prepare_head(call.preparation, call.preparation.k_gain, row, shape.key_dim, at, {});
            __syncwarp();
            store_codes(at, static_cast<int>(shape.key_dim),
                        coded_place(call, row, shape.k_offset, call.coded_k), call.coded_k,
                        static_cast<int>(head), static_cast<int>(shape.kv_heads));
            return;
        }
        const HeadRow to = stored_head(call, row, head, shape.key_dim, shape.k_offset);
        prepare_head(call.preparation, call.preparation.k_gain, row, shape.key_dim, at, to);
        return;
    }
    head -= shape.kv_heads;
    const float* at = call.v + (row * shape.kv_heads + head) * shape.value_dim;
    if constexpr (kCodes) {
        store_codes(at, static_cast<int>(shape.value_dim),
                    coded_place(call, row, shape.v_offset, call.coded_v), call.coded_v,
                    static_cast<int>(head), static_cast<int>(shape.kv_heads));
        return;
    }
    const HeadRow to = stored_head(call, row, head, shape.value_dim, shape.v_offset);
#pragma unroll 4
    for (std::int64_t d = threadIdx.x % kWarp; d < shape.value_dim; d += kWarp) to.put(d, at[d]);
}

}  // namespace strata::cuda
