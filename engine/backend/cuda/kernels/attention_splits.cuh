// What the attention kernels that part the positions among blocks share: the call, which positions
// a block has, and how the blocks' parts become one result.
//
//  1. The grid does not depend on the length; a block finds its positions from the length, which it
//     reads on the device. Blocks that have none leave at once and are waited for by nobody.
//  2. Parts are combined in the order of their positions. When there are many of them, that takes
//     two levels: neighbours form teams, the last block of a team to arrive combines the team, the
//     last of those blocks combines the teams.
//  3. What a row's result is depends on its position and on the grid's number of splits alone.
//  4. Scores are in units of log2: weights are powers of two.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/backend/cuda/kernels/arrival.cuh"
#include "engine/backend/cuda/kernels/coded_row.cuh"
#include "engine/backend/cuda/launch/launch.cuh"
#include "strata/backend/ops.hpp"
#include "strata/core/types.hpp"

namespace strata::cuda {

constexpr int kTileHeads = 8;          // query heads of one K/V head that a block computes
constexpr int kSplitsMax = 128;        // blocks among which a row's positions are parted
constexpr int kOneTeamSplitsMax = 16;  // so few parts are combined in one level
constexpr int kTeamSplits = 8;         // else by teams of this many
constexpr int kTeamsMax = kSplitsMax / kTeamSplits;
constexpr int kCountersPerTile = 1 + kTeamsMax;  // arrived teams, then arrived blocks of each team
constexpr int kJoinedMax = kOneTeamSplitsMax;    // parts that one combination can have
static_assert(kTeamsMax <= kJoinedMax && kTeamSplits <= kJoinedMax);

// Less than any score that finite activations give, and finite itself: differences stay numbers.
constexpr float kHidden = -1.0e30F;
constexpr float kLog2E = 1.4426950408889634F;

// Fixed width on purpose: device code divides by these, and 32 bits divide several times faster.
struct AttentionCall {
    StepView step;
    const float* q;  // [rows][heads][query_stride]
    float* out;      // [rows][heads][value_dim]
    int heads;
    int kv_heads;
    int group;       // query heads per K/V head
    int head_tiles;  // of a group
    int key_dim;
    int value_dim;
    int query_stride;
    float scale;
    bool gated;
    std::size_t k_offset;
    std::size_t v_offset;
    float* partials;     // [rows of the launch][kv_heads][head_tiles][splits][part_floats()]
    unsigned* counters;  // [rows of the launch][kv_heads][head_tiles][kCountersPerTile]
    int row_begin;       // of the step: the first row of this launch
    int rows;            // of the step
    // Of a step of one row whose K and V the launch stores itself, q and k as the products gave
    // them: k and v [kv_heads][dim]. Null: all is stored, q prepared.
    const float* fresh_k;
    const float* fresh_v;
    QkPreparation preparation;
    CodedRow coded_k;  // of int8 rows
    CodedRow coded_v;
};

__host__ __device__ constexpr int tile_heads_max(int group) {
    return group < kTileHeads ? group : kTileHeads;
}
// A part: results [heads][value_dim], largest score [kTileHeads], sum of weights [kTileHeads].
__host__ __device__ constexpr int part_result_floats(int group, int value_dim) {
    return (tile_heads_max(group) * value_dim + 3) / 4 * 4;  // sums stay aligned for 16-byte access
}
__host__ __device__ constexpr int part_floats(int group, int value_dim) {
    return part_result_floats(group, value_dim) + 2 * kTileHeads;
}

// Units of positions [begin, end) of split `split`; `active` splits have any.
struct PositionShare {
    int begin;
    int end;
    int active;
};
// `units_wanted`: what a split should have before another one takes part.
__host__ __device__ constexpr PositionShare share_positions(int units, int units_wanted, int splits,
                                                            int split) {
    const int useful = (units + units_wanted - 1) / units_wanted;
    const int active = useful < splits ? useful : splits;
    if (split >= active) return {0, 0, active};
    const std::int64_t all = units;
    return {static_cast<int>(all * split / active), static_cast<int>(all * (split + 1) / active),
            active};
}

__host__ __device__ constexpr int team_size(int active) {
    return active <= kOneTeamSplitsMax ? active : kTeamSplits;
}

#ifdef __CUDACC__

// 2^x; 0 for x far below.
__device__ __forceinline__ float power_of_two(float x) {
    float y;
    asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
    return y;
}

// The heads and the row that a block computes, and which of the blocks of those it is.
struct BlockPlace {
    int row;  // of the step
    int kv_head;
    int head;   // first query head
    int heads;  // query heads, at most kTileHeads
    int split;
    int tile;  // index of (row of the launch, kv head, head tile)
};
__device__ __forceinline__ BlockPlace block_place(const AttentionCall& call) {
    BlockPlace at;
    const int tiles = static_cast<int>(gridDim.x);
    const int tile = static_cast<int>(blockIdx.x);
    const int in_group = tile % call.head_tiles * kTileHeads;
    at.row = call.row_begin + static_cast<int>(blockIdx.z);
    at.kv_head = tile / call.head_tiles;
    at.head = at.kv_head * call.group + in_group;
    at.heads = call.group - in_group < kTileHeads ? call.group - in_group : kTileHeads;
    at.split = static_cast<int>(blockIdx.y);
    at.tile = static_cast<int>(blockIdx.z) * tiles + tile;
    return at;
}

// What a block has computed, in shared memory.
struct BlockResult {
    float* weighted;  // [heads][value_dim]
    float* largest;   // [kTileHeads]
    float* sums;      // [kTileHeads]
};

// out = weighted / sum * sigmoid(gate). The block's threads have seen each other's results.
__device__ inline void write_rows(const AttentionCall& call, const BlockPlace& at,
                                  const BlockResult& result) {
    const std::int64_t first_head = static_cast<std::int64_t>(at.row) * call.heads + at.head;
    const int count = at.heads * call.value_dim;
    float* out = call.out + first_head * call.value_dim;
    const float* q = call.q + first_head * call.query_stride;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
        const int head = i / call.value_dim;
        float value = result.weighted[i] / result.sums[head];
        if (call.gated) {
            const int d = i - head * call.value_dim;
            value *= sigmoid(q[head * call.query_stride + call.key_dim + d]);
        }
        out[i] = value;
    }
}

__device__ inline void write_part(const AttentionCall& call, const BlockPlace& at,
                                  const BlockResult& result, float* part) {
    const int count = at.heads * call.value_dim;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
        part[i] = result.weighted[i];
    }
    float* tail = part + part_result_floats(call.group, call.value_dim);
    if (threadIdx.x < kTileHeads) {
        tail[threadIdx.x] = result.largest[threadIdx.x];
        tail[kTileHeads + threadIdx.x] = result.sums[threadIdx.x];
    }
}

// One floating-point vector that a thread moves at once.
template <int kVector>
struct Vector {
    float of[kVector];
};
template <int kVector>
__device__ __forceinline__ Vector<kVector> load_shared_between_blocks(const float* from) {
    if constexpr (kVector == 4) {
        const float4 four = __ldcg(reinterpret_cast<const float4*>(from));
        return {four.x, four.y, four.z, four.w};
    } else {
        return {__ldcg(from)};
    }
}

// `count` parts that lie `stride` floats apart become one, in order. Ends with the block in step.
template <int kVector>
__device__ void join_parts(const AttentionCall& call, const BlockPlace& at, const float* parts,
                           std::int64_t stride, int count, const BlockResult& result) {
    __shared__ float largest[kJoinedMax][kTileHeads];
    __shared__ float factors[kJoinedMax][kTileHeads];
    const int thread = static_cast<int>(threadIdx.x);
    const int head_of_thread = thread % kTileHeads;
    const float* tail = parts + part_result_floats(call.group, call.value_dim) + head_of_thread;
    float sum = 0.0F;
    if (thread < count * kTileHeads) {
        const float* mine = tail + thread / kTileHeads * stride;
        largest[thread / kTileHeads][head_of_thread] = __ldcg(mine);
        sum = __ldcg(mine + kTileHeads);
    }
    __syncthreads();
    float top = kHidden;
    for (int p = 0; p < count; ++p) top = fmaxf(top, largest[p][head_of_thread]);
    if (thread < count * kTileHeads) {
        factors[thread / kTileHeads][head_of_thread] =
            power_of_two(largest[thread / kTileHeads][head_of_thread] - top);
    }
    __syncthreads();
    const int total = at.heads * call.value_dim / kVector;
    for (int i = thread; i < total; i += static_cast<int>(blockDim.x)) {
        const int head = i * kVector / call.value_dim;
        Vector<kVector> all{};
#pragma unroll 8
        for (int p = 0; p < count; ++p) {
            const Vector<kVector> one = load_shared_between_blocks<kVector>(
                parts + p * stride + static_cast<std::int64_t>(i) * kVector);
#pragma unroll
            for (int e = 0; e < kVector; ++e) {
                all.of[e] = fmaf(one.of[e], factors[p][head], all.of[e]);
            }
        }
#pragma unroll
        for (int e = 0; e < kVector; ++e) result.weighted[i * kVector + e] = all.of[e];
    }
    if (thread < kTileHeads) {
        float all = 0.0F;
        for (int p = 0; p < count; ++p) {
            all = fmaf(__ldcg(tail + p * stride + kTileHeads), factors[p][thread], all);
        }
        result.largest[thread] = top;
        result.sums[thread] = all;
    }
    __syncthreads();
}

// Where a block's part lies.
__device__ __forceinline__ float* part_of(const AttentionCall& call, const BlockPlace& at) {
    const std::int64_t number = static_cast<std::int64_t>(at.tile) * gridDim.y + at.split;
    return call.partials + number * part_floats(call.group, call.value_dim);
}

// Of blocks that have written their parts: true in the one that then has all of them in `result`.
// kVector: 4 where value_dim is a multiple of 4. All threads of the block call it.
template <int kVector>
__device__ bool join_written_parts(const AttentionCall& call, const BlockPlace& at, int active,
                                   const BlockResult& result) {
    const std::int64_t stride = part_floats(call.group, call.value_dim);
    float* parts = call.partials + static_cast<std::int64_t>(at.tile) * gridDim.y * stride;
    unsigned* counters = call.counters + static_cast<std::int64_t>(at.tile) * kCountersPerTile;
    const int size = team_size(active);
    const int team = at.split / size;
    const int teams = (active + size - 1) / size;
    const int left = active - team * size;
    const int members = left < size ? left : size;
    if (!last_to_arrive(counters + 1 + team, members)) return false;
    float* team_part = parts + static_cast<std::int64_t>(team) * size * stride;
    join_parts<kVector>(call, at, team_part, stride, members, result);
    if (teams > 1) {
        write_part(call, at, result, team_part);
        if (!last_to_arrive(counters, teams)) return false;
        join_parts<kVector>(call, at, parts, stride * size, teams, result);
    }
    return true;
}

// The end of a block that has positions: its part becomes the rows, or joins the others' parts. All
// threads of the block call it, after a barrier.
template <int kVector>
__device__ void finish_block(const AttentionCall& call, const BlockPlace& at, int active,
                             const BlockResult& result) {
    if (active > 1) {
        write_part(call, at, result, part_of(call, at));
        if (!join_written_parts<kVector>(call, at, active, result)) return;
    }
    write_rows(call, at, result);
}

#endif

}  // namespace strata::cuda
