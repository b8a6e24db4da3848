// The heads of a row as attention over few rows takes them (attention_rows.cuh): queries as
// operands of its products, and where the row is the step's own, all that comes before it: norm,
// rotation and the storing of its key and value. A warp has a head in registers, four neighbouring
// elements a lane, from its load to the operand.
//
// All that a head needs besides itself is asked for before or together with it: at few positions a
// step waits for this, not for K and V.
#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_fp16.h>

#include "engine/backend/cuda/kernels/attention_inputs.cuh"
#include "engine/backend/cuda/kernels/attention_splits.cuh"
#include "engine/backend/cuda/kernels/split_halves.cuh"

namespace strata::cuda {

constexpr int kQueryBits = 10;  // the largest element of a scaled head is 2^10 .. 2^11

__host__ __device__ constexpr int rows_kernel_warps(int dim) {
    return dim <= 64 ? 16 : dim <= 128 ? 12 : 8;
}

#ifdef __CUDACC__

// A head as a warp holds it: lane l has the quads (four elements) l, l + 32, ... of it.
template <int kDim>
struct HeadQuads {
    static constexpr int kQuads = kDim / 4;
    static constexpr int kPerLane = (kQuads + kWarp - 1) / kWarp;
    float4 of[kPerLane];

    __device__ __forceinline__ static int place(int i) {
        return static_cast<int>(threadIdx.x) % kWarp + i * kWarp;
    }
    __device__ __forceinline__ void load(const float* head) {
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) {
            of[i] = place(i) < kQuads ? reinterpret_cast<const float4*>(head)[place(i)]
                                      : make_float4(0.0F, 0.0F, 0.0F, 0.0F);
        }
    }
    __device__ __forceinline__ void store(float* head) const {
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) {
            if (place(i) < kQuads) reinterpret_cast<float4*>(head)[place(i)] = of[i];
        }
    }
    __device__ __forceinline__ void store_halves(char* head) const {
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) {
            if (place(i) >= kQuads) break;
            reinterpret_cast<uint2*>(head)[place(i)] =
                make_uint2(bits_of(__floats2half2_rn(of[i].x, of[i].y)),
                           bits_of(__floats2half2_rn(of[i].z, of[i].w)));
        }
    }
    __device__ __forceinline__ void norm(const HeadQuads& gains, float epsilon) {
        float squares = 0.0F;
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) {
            squares = __fmaf_rn(of[i].x, of[i].x, squares);
            squares = __fmaf_rn(of[i].y, of[i].y, squares);
            squares = __fmaf_rn(of[i].z, of[i].z, squares);
            squares = __fmaf_rn(of[i].w, of[i].w, squares);
        }
        const float factor = inverse_rms(warp_sum(squares), kDim, epsilon);
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) {
            of[i].x = normed(of[i].x, factor, gains.of[i].x);
            of[i].y = normed(of[i].y, factor, gains.of[i].y);
            of[i].z = normed(of[i].z, factor, gains.of[i].z);
            of[i].w = normed(of[i].w, factor, gains.of[i].w);
        }
    }
};

// q as the column operand of product j: halves (high: x, y; low: z, w) of head lane / 4, dimensions
// 32 (j / 2) + 8 (lane % 4) + 4 (j % 2) .. + 3. Fills the head's part of `fragments` and its scale
// factor.
template <int kDim>
__device__ __forceinline__ void place_head(const HeadQuads<kDim>& head, int n, float scale,
                                           uint4* fragments, float* factors) {
    using Quads = HeadQuads<kDim>;
    float largest = 0.0F;
#pragma unroll
    for (const float4& four : head.of) {
        largest = fmaxf(largest, fmaxf(fmaxf(fabsf(four.x), fabsf(four.y)),
                                       fmaxf(fabsf(four.z), fabsf(four.w))));
    }
    largest = warp_max(largest);
    constexpr int kExponentMax = 100;  // beyond it a factor or its inverse would not be normal
    const int exponent =
        min(max((__float_as_int(largest) >> 23 & 255) - 127, -kExponentMax), kExponentMax);
    const float up = ldexpf(1.0F, kQueryBits - exponent);
    if (threadIdx.x % kWarp == 0) factors[n] = ldexpf(scale * kLog2E, exponent - kQueryBits);
#pragma unroll
    for (int i = 0; i < Quads::kPerLane; ++i) {
        const int u = Quads::place(i);
        if (u >= Quads::kQuads) break;
        const SplitPair a = split_pair(head.of[i].x * up, head.of[i].y * up);
        const SplitPair b = split_pair(head.of[i].z * up, head.of[i].w * up);
        const int product = u / 8 * 2 + u % 2;
        fragments[product * kWarp + n * 4 + u % 8 / 2] = {a.high, b.high, a.low, b.low};
    }
}
// Of a head that is not there.
template <int kDim>
__device__ __forceinline__ void place_nothing(int n, uint4* fragments, float* factors) {
    const int lane = threadIdx.x % kWarp;
    if (lane == 0) factors[n] = 0.0F;
    for (int i = lane; i < kDim / 4; i += kWarp) {
        fragments[i / 4 * kWarp + n * 4 + i % 4] = make_uint4(0, 0, 0, 0);
    }
}

// Four elements, turned with the others of their pairs.
__device__ __forceinline__ float4 turned(const float4& own, const float4& other, bool first,
                                         const float4& angles, const float4& next_angles) {
    return make_float4(turned(own.x, other.x, first, angles.x, angles.y),
                       turned(own.y, other.y, first, angles.z, angles.w),
                       turned(own.z, other.z, first, next_angles.x, next_angles.y),
                       turned(own.w, other.w, first, next_angles.z, next_angles.w));
}
__device__ __forceinline__ float4 shuffled(const float4& v, int across) {
    return make_float4(
        __shfl_xor_sync(kAllLanes, v.x, across), __shfl_xor_sync(kAllLanes, v.y, across),
        __shfl_xor_sync(kAllLanes, v.z, across), __shfl_xor_sync(kAllLanes, v.w, across));
}

// The fresh row's queries and key in a warp's registers, where the pairs that are turned are
// neighbours, or halves of a whole head or of its first 64 elements.
template <int kDim>
struct FreshHead {
    using Quads = HeadQuads<kDim>;
    Quads gains;

    __device__ __forceinline__ static bool takes(const QkPreparation& preparation) {
        if (preparation.pairing == RotaryPairs::adjacent) return preparation.rope_pairs % 2 == 0;
        return preparation.rope_pairs == kDim / 2 || preparation.rope_pairs == 32;
    }
    // Before the row is there.
    __device__ __forceinline__ void load_gains(const float* gain) {
        if (gain != nullptr) gains.load(gain);
    }
    __device__ __forceinline__ Quads prepare(const QkPreparation& preparation, bool normed,
                                             const float* from) const {
        Quads v;
        v.load(from);
        const bool halves = preparation.pairing == RotaryPairs::halves;
        const int pairs = static_cast<int>(preparation.rope_pairs);
        const int half = pairs / 4;  // quads between the two of a pair of halves
        const auto* table = reinterpret_cast<const float4*>(preparation.rope_table);
        float4 angles[Quads::kPerLane][2];
#pragma unroll
        for (int i = 0; i < Quads::kPerLane; ++i) {
            const int u = Quads::place(i);
            if (4 * u >= 2 * pairs) break;
            if (halves) {
                angles[i][0] = table[2 * (u % half)];
                angles[i][1] = table[2 * (u % half) + 1];
            } else {
                angles[i][0] = table[u];
            }
        }
        if (normed) v.norm(gains, preparation.epsilon);
        if (halves) {
            Quads other;
#pragma unroll
            for (int i = 0; i < Quads::kPerLane; ++i) {
                if constexpr (kDim == 256) {
                    other.of[i] = half == kWarp ? v.of[i ^ 1] : shuffled(v.of[i], half);
                } else {
                    other.of[i] = shuffled(v.of[i], half);
                }
            }
#pragma unroll
            for (int i = 0; i < Quads::kPerLane; ++i) {
                const int u = Quads::place(i);
                if (4 * u >= 2 * pairs) break;
                v.of[i] = turned(v.of[i], other.of[i], u < half, angles[i][0], angles[i][1]);
            }
        } else {
#pragma unroll
            for (int i = 0; i < Quads::kPerLane; ++i) {
                if (4 * Quads::place(i) >= 2 * pairs) break;
                const float4 a = angles[i][0];
                const float4 q = v.of[i];
                v.of[i] = make_float4(
                    turned(q.x, q.y, true, a.x, a.y), turned(q.y, q.x, false, a.x, a.y),
                    turned(q.z, q.w, true, a.z, a.w), turned(q.w, q.z, false, a.z, a.w));
            }
        }
        return v;
    }
};

// The fresh row of the step. A warp prepares each of the block's query heads for its products, and
// where the block has the row's position (`stores`), one the key and one the value: into the page,
// and into `own` as they are, key and value.
template <int kDim, class Element>
class OwnRow {
  public:
    __device__ __forceinline__ OwnRow(const AttentionCall& call, const BlockPlace& at, int position,
                                      bool stores)
        : call_(call), at_(at), tasks_(stores ? kTasks : kTileHeads), first_(position) {
        const int n = static_cast<int>(threadIdx.x) / kWarp;
        head_.load_gains(gain_of(n));
        page_ = stores
                    ? static_cast<char*>(call.step.pages[position / static_cast<int>(kPageTokens)])
                    : nullptr;
    }

    // `heads`: room for kTileHeads + 1 heads, where pairs are turned one by one.
    __device__ __forceinline__ void prepare(uint4* fragments, float* factors, float* own,
                                            float* heads) {
        for (int n = static_cast<int>(threadIdx.x) / kWarp; n < tasks_;
             n += rows_kernel_warps(kDim)) {
            if (n >= rows_kernel_warps(kDim)) head_.load_gains(gain_of(n));
            if (n == kValue) {
                store_value(own + kDim);
            } else if (n == kKey || n < at_.heads) {
                const Quads v = prepared(n, heads);
                if (n == kKey) {
                    store_key(v, own);
                } else {
                    place_head<kDim>(v, n, call_.scale, fragments, factors);
                }
            } else {
                place_nothing<kDim>(n, fragments, factors);
            }
        }
    }

  private:
    using Quads = HeadQuads<kDim>;
    static constexpr bool kCodes = std::is_same_v<Element, std::int8_t>;
    static constexpr int kKey = kTileHeads;  // tasks behind the query heads
    static constexpr int kValue = kTileHeads + 1;
    static constexpr int kTasks = kTileHeads + 2;

    __device__ __forceinline__ const float* gain_of(int n) const {
        return n == kKey ? call_.preparation.k_gain : call_.preparation.q_gain;
    }
    __device__ __forceinline__ Quads prepared(int n, float* heads) const {
        const bool key = n == kKey;
        const float* from = key ? call_.fresh_k + at_.kv_head * kDim
                                : call_.q + (at_.head + n) * call_.query_stride;
        const float* gain = gain_of(n);
        if (FreshHead<kDim>::takes(call_.preparation)) {
            return head_.prepare(call_.preparation, gain != nullptr, from);
        }
        float* head = heads + (key ? at_.heads : n) * kDim;
        Quads v;
        v.load(from);
        v.store(head);
        __syncwarp();
        prepare_head(call_.preparation, gain, 0, kDim, head, {});
        __syncwarp();
        v.load(head);
        return v;
    }
    __device__ __forceinline__ int row() const { return first_ % static_cast<int>(kPageTokens); }
    __device__ __forceinline__ char* stored(std::size_t offset) const {
        const int row_and_head = row() * call_.kv_heads + at_.kv_head;
        return page_ + offset + static_cast<std::size_t>(row_and_head * kDim) * sizeof(__half);
    }
    __device__ __forceinline__ void store_key(const Quads& v, float* key) const {
        v.store(key);
        if constexpr (kCodes) {
            __syncwarp();
            store_codes(key, kDim, page_ + call_.k_offset + row() * call_.coded_k.bytes,
                        call_.coded_k, at_.kv_head, call_.kv_heads);
        } else {
            v.store_halves(stored(call_.k_offset));
        }
    }
    __device__ __forceinline__ void store_value(float* value) const {
        const float* from = call_.fresh_v + at_.kv_head * kDim;
        if constexpr (kCodes) {
            store_codes(from, kDim, page_ + call_.v_offset + row() * call_.coded_v.bytes,
                        call_.coded_v, at_.kv_head, call_.kv_heads);
        } else {
            Quads v;
            v.load(from);
            v.store(value);
            v.store_halves(stored(call_.v_offset));
        }
    }

    const AttentionCall& call_;
    const BlockPlace& at_;
    int tasks_;
    int first_;
    char* page_;
    FreshHead<kDim> head_;
};

#endif

}  // namespace strata::cuda
