// The gated delta rule token by token: state columns stay in registers, so that a step reads and
// writes the state once.
//
// A warp owns 8 neighbouring columns of a value head: lane 2i + h holds, of the four columns from
// 4h on, the keys i, i + 16, i + 32 ... Two lanes thus read 32 contiguous bytes. With f = e^g, one
// pass over the state before the token gives both products:
//   d = beta (v - f S^T k),  o = f S^T q + (k . q) d,  S <- f S + k d^T
// q and k are used as they are, their factors 1 / |q| and 1 / |k| follow behind the sums.
#pragma once

#include <cstdint>

#include "engine/backend/cuda/kernels/convolution.cuh"

namespace strata::cuda {

constexpr int kDeltaColumns = 8;                      // of a warp
constexpr int kDeltaQuad = 4;                         // of a lane
constexpr int kDeltaKeyLanes = 16;                    // lanes that share a column
constexpr int kDeltaWarps = 2;                        // of a block: 32 heads of 128 give 256 blocks
constexpr int kDeltaKeyDimMax = 32 * kDeltaKeyLanes;  // 32 keys of four columns fill the registers
constexpr float kUnitEpsilon = 1.0e-6F;
constexpr float kSoftplusLinearFrom = 20.0F;  // where log(1 + e^x) = x in f32

// A step of the delta rule, or a part of its rows.
struct DeltaRows {
    const float* c;  // row: [q: key heads][k: key heads][v: value heads]
    const float* b;
    const float* alpha;
    const float* a;
    const float* dt_bias;
    float* o;
    std::int64_t rows;
    int key_heads;
    int value_heads;
    int key_dim;
    int value_dim;
    bool tiled;
    std::size_t state_offset;

    __device__ __forceinline__ std::int64_t keys() const {
        return static_cast<std::int64_t>(key_heads) * key_dim;
    }
    __device__ __forceinline__ std::int64_t o_cols() const {
        return static_cast<std::int64_t>(value_heads) * value_dim;
    }
    __device__ __forceinline__ std::int64_t c_cols() const { return 2 * keys() + o_cols(); }
    __device__ __forceinline__ int key_head(int head) const {
        return tiled ? head % key_heads : head / (value_heads / key_heads);
    }
    // Value head `i` of those that read key head `key_head`.
    __device__ __forceinline__ int value_head(int key_head, int i) const {
        return tiled ? i * key_heads + key_head : key_head * (value_heads / key_heads) + i;
    }
};

__device__ __forceinline__ float softplus(float x) {
    return x > kSoftplusLinearFrom ? x : log1pf(expf(x));
}

// What a lane needs of one token.
template <int kKeys>
struct DeltaToken {
    float q[kKeys];
    float k[kKeys];
    float v[kDeltaQuad];
    float b;
    float alpha;
};

// Where a lane reads and what lies inside: `kWhole` heads have 16 * kKeys keys and whole warps of
// columns.
template <int kKeys, bool kWhole>
struct DeltaLane {
    const DeltaRows& of;
    int head;
    int key;     // the first of the lane's keys
    int column;  // the first of the lane's columns

    __device__ __forceinline__ bool has_key(int r) const {
        return kWhole || key + r * kDeltaKeyLanes < of.key_dim;
    }
    __device__ __forceinline__ bool has_column(int i) const {
        return kWhole || column + i < of.value_dim;
    }

    __device__ __forceinline__ void load_token(std::int64_t t, DeltaToken<kKeys>& token) const {
        const float* row = of.c + t * of.c_cols();
        const float* q = row + of.key_head(head) * of.key_dim + key;
        const float* k = q + of.keys();
        const float* v =
            row + 2 * of.keys() + static_cast<std::int64_t>(head) * of.value_dim + column;
#pragma unroll
        for (int r = 0; r < kKeys; ++r) {
            token.q[r] = has_key(r) ? q[r * kDeltaKeyLanes] : 0.0F;
            token.k[r] = has_key(r) ? k[r * kDeltaKeyLanes] : 0.0F;
        }
        Quad quad;
        load_quad(v, quad);
#pragma unroll
        for (int i = 0; i < kDeltaQuad; ++i) token.v[i] = quad.of[i];
        token.b = of.b[t * of.value_heads + head];
        token.alpha = of.alpha[t * of.value_heads + head];
    }

    using Quad = Channels<kDeltaQuad>;
    __device__ __forceinline__ void load_quad(const float* from, Quad& quad) const {
        if constexpr (kWhole) {
            quad.load(from);
        } else {
#pragma unroll
            for (int i = 0; i < kDeltaQuad; ++i) quad.of[i] = has_column(i) ? from[i] : 0.0F;
        }
    }
    __device__ __forceinline__ void store_quad(float* to, const Quad& quad) const {
        if constexpr (kWhole) {
            quad.store(to);
        } else {
#pragma unroll
            for (int i = 0; i < kDeltaQuad; ++i) {
                if (has_column(i)) to[i] = quad.of[i];
            }
        }
    }
};

// The sum over the 16 lanes that share a column, in each of them.
__device__ __forceinline__ float sum_of_keys(float value) {
#pragma unroll
    for (int step = 2; step < kWarp; step *= 2) value += __shfl_xor_sync(kAllLanes, value, step);
    return value;
}

// Sums over the 16 lanes that share columns of 2 x 4 values; each round halves what a lane keeps. A
// lane ends with the sum of column 2 * bit 3 + bit 2 of `by_key`, or of `by_query` if bit 4 is set.
__device__ __forceinline__ float scattered_sums(const float (&by_key)[kDeltaQuad],
                                                const float (&by_query)[kDeltaQuad], int lane) {
    const bool query = (lane & 16) != 0;
    const bool upper = (lane & 8) != 0;
    const bool odd = (lane & 4) != 0;
    float four[kDeltaQuad];
#pragma unroll
    for (int i = 0; i < kDeltaQuad; ++i) {
        const float sent = query ? by_key[i] : by_query[i];
        four[i] = (query ? by_query[i] : by_key[i]) + __shfl_xor_sync(kAllLanes, sent, 16);
    }
    float two[2];
#pragma unroll
    for (int i = 0; i < 2; ++i) {
        const float sent = upper ? four[i] : four[i + 2];
        two[i] = (upper ? four[i + 2] : four[i]) + __shfl_xor_sync(kAllLanes, sent, 8);
    }
    const float sent = odd ? two[0] : two[1];
    const float one = (odd ? two[1] : two[0]) + __shfl_xor_sync(kAllLanes, sent, 4);
    return one + __shfl_xor_sync(kAllLanes, one, 2);
}

// One token: changes the state, and writes 8 elements of `o` (the head's first element).
template <int kKeys, bool kWhole>
__device__ __forceinline__ void delta_token(const DeltaLane<kKeys, kWhole>& at,
                                            const DeltaToken<kKeys>& token, float a, float bias,
                                            float (&state)[kKeys][kDeltaQuad], float* o) {
    const int lane = threadIdx.x % kWarp;
    float by_key[kDeltaQuad] = {};
    float by_query[kDeltaQuad] = {};
    float q_squares = 0.0F;
    float k_squares = 0.0F;
    float alike = 0.0F;
#pragma unroll
    for (int r = 0; r < kKeys; ++r) {
#pragma unroll
        for (int i = 0; i < kDeltaQuad; ++i) {
            by_key[i] = __fmaf_rn(state[r][i], token.k[r], by_key[i]);
            by_query[i] = __fmaf_rn(state[r][i], token.q[r], by_query[i]);
        }
        q_squares = __fmaf_rn(token.q[r], token.q[r], q_squares);
        k_squares = __fmaf_rn(token.k[r], token.k[r], k_squares);
        alike = __fmaf_rn(token.q[r], token.k[r], alike);
    }
    const float sums = scattered_sums(by_key, by_query, lane);
    const float key_dim = static_cast<float>(at.of.key_dim);
    const float q_factor = 1.0F / sqrtf((sum_of_keys(q_squares) + kUnitEpsilon) * key_dim);
    const float k_factor = 1.0F / sqrtf(sum_of_keys(k_squares) + kUnitEpsilon);
    alike = sum_of_keys(alike) * q_factor * k_factor;
    const float fade = expf(a * softplus(token.alpha + bias));
    const float beta = sigmoid(token.b);

    float d[kDeltaQuad];
#pragma unroll
    for (int i = 0; i < kDeltaQuad; ++i) {
        const float expected =
            __shfl_sync(kAllLanes, sums, (lane & 1) + (i >> 1) * 8 + (i & 1) * 4);
        d[i] = beta * __fmaf_rn(-fade * k_factor, expected, token.v[i]);
    }
    const int own = ((lane >> 3) & 1) * 2 + ((lane >> 2) & 1);
    const float own_d = own < 2 ? (own == 0 ? d[0] : d[1]) : (own == 2 ? d[2] : d[3]);
    if ((lane & 16) != 0 && (lane & 2) == 0 && at.has_column(own)) {
        o[at.column + own] = __fmaf_rn(fade * q_factor, sums, alike * own_d);
    }
#pragma unroll
    for (int i = 0; i < kDeltaQuad; ++i) {
        const float change = d[i] * k_factor;
#pragma unroll
        for (int r = 0; r < kKeys; ++r) {
            state[r][i] = __fmaf_rn(token.k[r], change, fade * state[r][i]);
        }
    }
}

// Grid: x over the columns of a head, y over value heads.
template <int kKeys, bool kWhole>
__global__ void __launch_bounds__(kWarp* kDeltaWarps)
    delta_tokens_kernel(StepView step, DeltaRows of) {
    const int lane = threadIdx.x % kWarp;
    const int head = static_cast<int>(blockIdx.y);
    const int warp = static_cast<int>(blockIdx.x) * kDeltaWarps + threadIdx.x / kWarp;
    const DeltaLane<kKeys, kWhole> at{of, head, lane / 2,
                                      warp * kDeltaColumns + (lane % 2) * kDeltaQuad};
    const float a = of.a[head];
    const float bias = of.dt_bias[head];
    wait_for_previous();
    let_next_start();
    if (warp * kDeltaColumns >= of.value_dim) return;
    float* matrix = running_floats(step, of.state_offset) +
                    static_cast<std::int64_t>(head) * of.key_dim * of.value_dim + at.column;
    const auto state_row = [&](int r) {
        return matrix + static_cast<std::int64_t>(at.key + r * kDeltaKeyLanes) * of.value_dim;
    };
    float state[kKeys][kDeltaQuad];
    typename DeltaLane<kKeys, kWhole>::Quad quad;
#pragma unroll
    for (int r = 0; r < kKeys; ++r) {
        quad = {};
        if (at.has_key(r)) at.load_quad(state_row(r), quad);
#pragma unroll
        for (int i = 0; i < kDeltaQuad; ++i) state[r][i] = quad.of[i];
    }
    DeltaToken<kKeys> token;
    at.load_token(0, token);
    float* o = of.o + static_cast<std::int64_t>(head) * of.value_dim;
    for (std::int64_t t = 0; t < of.rows; ++t) {
        const DeltaToken<kKeys> now = token;
        if (t + 1 < of.rows) at.load_token(t + 1, token);  // arrives while this one is computed
        delta_token(at, now, a, bias, state, o + t * of.o_cols());
    }
#pragma unroll
    for (int r = 0; r < kKeys; ++r) {
#pragma unroll
        for (int i = 0; i < kDeltaQuad; ++i) quad.of[i] = state[r][i];
        if (at.has_key(r)) at.store_quad(state_row(r), quad);
    }
}

}  // namespace strata::cuda
