// Attention of few rows over many positions, K and V in half precision (as codes:
// attention_codes.cuh), head sizes that tensor cores like: bound by reading K and V once. One block
// computes up to eight query heads of one K/V head for one row and a part of the positions
// (attention_splits.cuh).
//
// How a warp computes sixteen positions:
//  1. Scores^T = K q^T as m16n8k16 products: positions are the rows, the heads the columns. K goes
//     from global memory into the operand's registers, sixteen bytes a lane: which dimensions a
//     product takes is free, as long as q takes the same ones.
//  2. Results^T += V^T weights^T: dimensions are the rows. A lane reads sixteen bytes of four
//     positions and pairs up positions itself.
//  3. q and the weights are f32 numbers. Each is the sum of two halves (22 bits), so two products
//     give what f32 arithmetic would give. A head of q is first scaled by a power of two, so that
//     neither half leaves the range of its type; weights are at most 2^kWeightBits.
#pragma once

#include <cstdint>
#include <type_traits>

#include <cuda_fp16.h>

#include "engine/backend/cuda/kernels/attention_heads.cuh"
#include "engine/backend/cuda/kernels/attention_splits.cuh"
#include "engine/backend/cuda/kernels/split_halves.cuh"
#include "engine/backend/cuda/kernels/warp_instructions.cuh"

namespace strata::cuda {

constexpr int kRowsTile = 16;         // positions of a product's rows
constexpr float kWeightBits = 14.0F;  // the largest weight is 2^14

// Shared memory: fragments of q, the fresh key and value, then a result of every warp; before there
// are any, the heads that the block prepares in the way that takes any pairs.
constexpr int rows_kernel_shared_bytes(int dim, int group) {
    const int results = rows_kernel_warps(dim) * tile_heads_max(group);
    const int prepared = tile_heads_max(group) + 1;  // and the key's
    return dim / 16 * kWarp * 16 +
           (2 + (results > prepared ? results : prepared)) * dim * static_cast<int>(sizeof(float));
}

#ifdef __CUDACC__

// The 8 x 8 halves that the warp holds as (row lane / 4, columns 2 (lane % 4), + 1), transposed.
__device__ __forceinline__ std::uint32_t transposed(std::uint32_t halves) {
    std::uint32_t out;
    asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(out) : "r"(halves));
    return out;
}

// Read once, by this warp alone: not worth a place in the first cache.
__device__ __forceinline__ uint4 load_once(const char* from) {
    uint4 out;
    asm volatile("ld.global.L1::no_allocate.L2::128B.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(out.x), "=r"(out.y), "=r"(out.z), "=r"(out.w)
                 : "l"(from));
    return out;
}

// Addresses of a K/V head's rows: tile t lies in one page.
struct TileSource {
    const AttentionCall* call;
    int kv_head;
    int last;  // position: a tile's rows past it are read as this one

    static_assert(kPageTokens % kRowsTile == 0);
    __device__ __forceinline__ const char* page(int tile) const {
        constexpr int kTilesPerPage = static_cast<int>(kPageTokens) / kRowsTile;
        return static_cast<const char*>(call->step.pages[tile / kTilesPerPage]);
    }
    template <int kDim>
    __device__ __forceinline__ std::size_t row(int position) const {
        const int seen = position < last ? position : last;
        const int in_page = seen % static_cast<int>(kPageTokens);
        return static_cast<std::size_t>((in_page * call->kv_heads + kv_head) * kDim) *
               sizeof(__half);
    }
    // Of an int8 row: to its start.
    __device__ __forceinline__ std::size_t coded(int position, const CodedRow& places) const {
        const int seen = position < last ? position : last;
        return static_cast<std::size_t>(seen % static_cast<int>(kPageTokens) * places.bytes);
    }
};

// Eight values as halves, as a stored row has them.
__device__ __forceinline__ uint4 eight_halves(const float* from) {
    uint4 out;
    auto* pairs = reinterpret_cast<__half2*>(&out);
#pragma unroll
    for (int i = 0; i < 4; ++i) pairs[i] = __floats2half2_rn(from[2 * i], from[2 * i + 1]);
    return out;
}

// Positions of K and of V as a warp holds them; `Element`: what rows are made of.
template <int kDim, class Element>
struct KeyTile;
template <int kDim, class Element>
struct ValueTile;

template <int kDim>
struct KeyTile<kDim, __half> {
    uint4 of[2][kDim / 32];  // positions lane / 4 and + 8; dimensions 32 j + 8 (lane % 4) ..

    __device__ __forceinline__ void load(const TileSource& from, const char* page, int tile) {
        const int lane = threadIdx.x % kWarp;
        const char* keys = page + from.call->k_offset + lane % 4 * 16;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            const char* row = keys + from.row<kDim>(tile * kRowsTile + r * 8 + lane / 4);
#pragma unroll
            for (int j = 0; j < kDim / 32; ++j) of[r][j] = load_once(row + j * 64);
        }
    }
    // Of a tile that was loaded before its last position was there: that position's key.
    __device__ __forceinline__ void put_fresh(int row, const float* key) {
        const int lane = threadIdx.x % kWarp;
#pragma unroll
        for (int r = 0; r < 2; ++r) {
            if (r * 8 + lane / 4 < row) continue;  // rows past it are read as this one
#pragma unroll
            for (int j = 0; j < kDim / 32; ++j) {
                of[r][j] = eight_halves(key + 32 * j + lane % 4 * 8);
            }
        }
    }
};

template <int kDim>
struct ValueTile<kDim, __half> {
    uint4 of[4][kDim /
                64];  // positions 2 (lane % 4) + {0, 1, 8, 9}; dimensions 64 j + 8 (lane / 4) ..

    __device__ __forceinline__ void load(const TileSource& from, const char* page, int tile) {
        const int lane = threadIdx.x % kWarp;
        const char* values = page + from.call->v_offset + lane / 4 * 16;
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            const int position = tile * kRowsTile + lane % 4 * 2 + r % 2 + r / 2 * 8;
            const char* row = values + from.row<kDim>(position);
#pragma unroll
            for (int j = 0; j < kDim / 64; ++j) of[r][j] = load_once(row + j * 128);
        }
    }
    // As of the keys.
    __device__ __forceinline__ void put_fresh(int row, const float* value) {
        const int lane = threadIdx.x % kWarp;
#pragma unroll
        for (int r = 0; r < 4; ++r) {
            if (lane % 4 * 2 + r % 2 + r / 2 * 8 < row) continue;
#pragma unroll
            for (int j = 0; j < kDim / 64; ++j) {
                of[r][j] = eight_halves(value + 64 * j + lane / 4 * 8);
            }
        }
    }
};

// The running softmax of a warp: this lane's columns are heads 2 (lane % 4) and the next one.
template <int kDim>
struct WarpState {
    float weighted[kDim / 16][4];  // rows: 64 (t / 4) + 8 (lane / 4) + 2 (t % 4), and the next one
    float largest[2];
    float sums[2];  // of this lane's positions

    __device__ __forceinline__ void clear() {
#pragma unroll
        for (int t = 0; t < kDim / 16; ++t) {
#pragma unroll
            for (int e = 0; e < 4; ++e) weighted[t][e] = 0.0F;
        }
        largest[0] = largest[1] = kHidden;
        sums[0] = sums[1] = 0.0F;
    }
};

// Scores of a tile in units of log2: [0], [1]: position lane / 4, this lane's heads; [2], [3]: + 8.
template <int kDim>
__device__ __forceinline__ void score_tile(const KeyTile<kDim, __half>& keys,
                                           const uint4* fragments, const float (&factors)[2],
                                           float (&scores)[4]) {
    float high[4] = {};
    float low[4] = {};
#pragma unroll
    for (int j = 0; j < kDim / 16; ++j) {
        const uint4& one = keys.of[0][j / 2];
        const uint4& other = keys.of[1][j / 2];
        const std::uint32_t a[4] = {j % 2 == 0 ? one.x : one.z, j % 2 == 0 ? other.x : other.z,
                                    j % 2 == 0 ? one.y : one.w, j % 2 == 0 ? other.y : other.w};
        const uint4 q = fragments[j * kWarp];
        multiply_tile(high, a, q.x, q.y);
        multiply_tile(low, a, q.z, q.w);
    }
#pragma unroll
    for (int e = 0; e < 4; ++e) scores[e] = (high[e] + low[e]) * factors[e % 2];
}

// Weights instead of scores; what was summed before shrinks to the new largest score.
template <int kDim>
__device__ __forceinline__ void soften_tile(WarpState<kDim>& state, float (&scores)[4]) {
    float shrink[2];
#pragma unroll
    for (int e = 0; e < 2; ++e) {
        float top = fmaxf(scores[e], scores[e + 2]);
#pragma unroll
        for (int step = 4; step < kWarp; step *= 2) {
            top = fmaxf(top, __shfl_xor_sync(kAllLanes, top, step));
        }
        top = fmaxf(top, state.largest[e]);
        shrink[e] = power_of_two(state.largest[e] - top);
        state.largest[e] = top;
        scores[e] = power_of_two(scores[e] - (top - kWeightBits));
        scores[e + 2] = power_of_two(scores[e + 2] - (top - kWeightBits));
        state.sums[e] = fmaf(state.sums[e], shrink[e], scores[e] + scores[e + 2]);
    }
    if (__any_sync(kAllLanes, shrink[0] != 1.0F || shrink[1] != 1.0F)) {
#pragma unroll
        for (int t = 0; t < kDim / 16; ++t) {
#pragma unroll
            for (int e = 0; e < 4; ++e) state.weighted[t][e] *= shrink[e % 2];
        }
    }
}

template <int kDim>
__device__ __forceinline__ void add_tile(WarpState<kDim>& state,
                                         const ValueTile<kDim, __half>& values,
                                         const float (&weights)[4]) {
    const SplitPair early = split_pair(weights[0], weights[1]);
    const SplitPair late = split_pair(weights[2], weights[3]);
    const std::uint32_t high[2] = {transposed(early.high), transposed(late.high)};
    const std::uint32_t low[2] = {transposed(early.low), transposed(late.low)};
#pragma unroll
    for (int t = 0; t < kDim / 16; ++t) {
        const auto word = [&](int r) {
            const uint4& four = values.of[r][t / 4];
            return t % 4 == 0 ? four.x : t % 4 == 1 ? four.y : t % 4 == 2 ? four.z : four.w;
        };
        constexpr unsigned kFirstHalves = 0x5410;
        constexpr unsigned kSecondHalves = 0x7632;
        const std::uint32_t a[4] = {__byte_perm(word(0), word(1), kFirstHalves),
                                    __byte_perm(word(0), word(1), kSecondHalves),
                                    __byte_perm(word(2), word(3), kFirstHalves),
                                    __byte_perm(word(2), word(3), kSecondHalves)};
        multiply_tile(state.weighted[t], a, high[0], high[1]);
        multiply_tile(state.weighted[t], a, low[0], low[1]);
    }
}

// What the warps of a block have summed up, in shared memory.
template <int kDim>
struct WarpResults {
    static constexpr int kWarps = rows_kernel_warps(kDim);
    float* weighted;  // [warps][heads][kDim]
    float (*largest)[kTileHeads];
    float (*sums)[kTileHeads];

    __device__ __forceinline__ void put(WarpState<kDim>& state, int heads) const {
        const int lane = threadIdx.x % kWarp;
        const int warp = threadIdx.x / kWarp;
        const int column = lane % 4 * 2;
#pragma unroll
        for (int step = 4; step < kWarp; step *= 2) {
#pragma unroll
            for (int e = 0; e < 2; ++e) {
                state.sums[e] += __shfl_xor_sync(kAllLanes, state.sums[e], step);
            }
        }
#pragma unroll
        for (int e = 0; e < 2; ++e) {
            if (lane < 4) largest[warp][column + e] = state.largest[e];
            if (lane < 4) sums[warp][column + e] = state.sums[e];
            if (column + e >= heads) continue;
            float* to = weighted + (warp * heads + column + e) * kDim + lane / 4 * 8;
#pragma unroll
            for (int t = 0; t < kDim / 16; ++t) {
                *reinterpret_cast<float2*>(to + t / 4 * 64 + t % 4 * 2) =
                    make_float2(state.weighted[t][e], state.weighted[t][e + 2]);
            }
        }
    }
    // Four neighbouring results of all warps together, in their order: `quad` of [heads][kDim / 4].
    struct Joined {
        float4 weighted;
        float largest;
        float sum;
    };
    __device__ __forceinline__ Joined join(int quad, int warps, int heads) const {
        const int head = quad / (kDim / 4);
        float tops[kWarps];
        float top = kHidden;
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
            tops[w] = w < warps ? largest[w][head] : kHidden;
            top = fmaxf(top, tops[w]);
        }
        Joined all = {make_float4(0.0F, 0.0F, 0.0F, 0.0F), top, 0.0F};
#pragma unroll
        for (int w = 0; w < kWarps; ++w) {
            if (w >= warps) break;
            const float factor = power_of_two(tops[w] - top);
            const float4 one =
                reinterpret_cast<const float4*>(weighted)[w * heads * (kDim / 4) + quad];
            all.sum = fmaf(sums[w][head], factor, all.sum);
            all.weighted.x = fmaf(one.x, factor, all.weighted.x);
            all.weighted.y = fmaf(one.y, factor, all.weighted.y);
            all.weighted.z = fmaf(one.z, factor, all.weighted.z);
            all.weighted.w = fmaf(one.w, factor, all.weighted.w);
        }
        return all;
    }
};

// Four results of a head, divided by its sum and gated.
template <int kDim>
__device__ __forceinline__ void write_quad(const AttentionCall& call, const BlockPlace& at,
                                           int quad, float4 weighted, float sum) {
    const int head = quad / (kDim / 4);
    const int d = quad % (kDim / 4) * 4;
    const std::int64_t first_head = static_cast<std::int64_t>(at.row) * call.heads + at.head;
    const float inverse = 1.0F / sum;
    float4 out = make_float4(weighted.x * inverse, weighted.y * inverse, weighted.z * inverse,
                             weighted.w * inverse);
    if (call.gated) {
        const auto gate = *reinterpret_cast<const float4*>(
            call.q + (first_head + head) * call.query_stride + kDim + d);
        out.x *= sigmoid(gate.x);
        out.y *= sigmoid(gate.y);
        out.z *= sigmoid(gate.z);
        out.w *= sigmoid(gate.w);
    }
    *reinterpret_cast<float4*>(call.out + (first_head + head) * kDim + d) = out;
}

// The end of a block whose warps have put their results: they become the row, or a part of it.
template <int kDim>
__device__ void finish_rows(const AttentionCall& call, const BlockPlace& at, int warps, int active,
                            const WarpResults<kDim>& results) {
    __shared__ float largest[kTileHeads];
    __shared__ float sums[kTileHeads];
    __syncthreads();
    const int quads = at.heads * (kDim / 4);
    const BlockResult result{results.weighted, largest, sums};
    float* part = active > 1 ? part_of(call, at) : nullptr;
    for (int quad = static_cast<int>(threadIdx.x); quad < quads;
         quad += WarpResults<kDim>::kWarps * kWarp) {
        const auto all = results.join(quad, warps, at.heads);
        if (active == 1) {
            write_quad<kDim>(call, at, quad, all.weighted, all.sum);
            continue;
        }
        reinterpret_cast<float4*>(part)[quad] = all.weighted;
        if (quad % (kDim / 4) != 0) continue;
        float* tail = part + part_result_floats(call.group, call.value_dim) + quad / (kDim / 4);
        tail[0] = all.largest;
        tail[kTileHeads] = all.sum;
    }
    if (active > 1 && join_written_parts<4>(call, at, active, result)) {
        write_rows(call, at, result);
    }
}

// Tiles begin, + kWarps, ...; the next tile's keys are on their way while one is computed. The
// first one's are there, and its values where `loaded` says so.
template <int kDim, class Element>
__device__ __forceinline__ void attend_tiles(const TileSource& source, int begin, int end,
                                             const uint4* fragments, const float* all_factors,
                                             KeyTile<kDim, Element>& keys,
                                             ValueTile<kDim, Element>& values, bool loaded,
                                             const char* page, WarpState<kDim>& state) {
    constexpr int kWarps = rows_kernel_warps(kDim);
    const int lane = threadIdx.x % kWarp;
    const float factors[2] = {all_factors[lane % 4 * 2], all_factors[lane % 4 * 2 + 1]};
    for (int tile = begin; tile < end; tile += kWarps) {
        if (!loaded) values.load(source, page, tile);
        loaded = false;
        const bool more = tile + kWarps < end;
        if (more) page = source.page(tile + kWarps);
        float scores[4];
        score_tile<kDim>(keys, fragments + lane, factors, scores);
        if (more) keys.load(source, page, tile + kWarps);
        const int position = tile * kRowsTile + lane / 4;
        if (position > source.last) scores[0] = scores[1] = kHidden;
        if (position + 8 > source.last) scores[2] = scores[3] = kHidden;
        soften_tile<kDim>(state, scores);
        add_tile<kDim>(state, values, scores);
    }
}

// Grid: kv_heads * head_tiles, splits, rows of the launch: blocks that have positions however few
// there are start first.
template <int kDim, class Element>
__global__ void __launch_bounds__(rows_kernel_warps(kDim) * kWarp, 1)
    attention_rows_kernel(const __grid_constant__ AttentionCall call) {
    constexpr int kWarps = rows_kernel_warps(kDim);
    extern __shared__ uint4 shared[];
    __shared__ float factors[kTileHeads];
    __shared__ float largest[kWarps][kTileHeads];
    __shared__ float sums[kWarps][kTileHeads];
    let_next_start();
    // The step's own memory is written before its first kernel starts.
    const BlockPlace at = block_place(call);
    const int last = static_cast<int>(call.step.head->first) + at.row;
    const int tiles = last / kRowsTile + 1;
    const PositionShare share =
        share_positions(tiles, kWarps, static_cast<int>(gridDim.y), at.split);
    if (share.begin == share.end) return;
    const TileSource source{&call, at.kv_head, last};
    const int warp = static_cast<int>(threadIdx.x) / kWarp;
    const int begin = share.begin + warp;
    const bool fresh = call.fresh_k != nullptr;
    const bool stores = fresh && share.end == tiles;
    KeyTile<kDim, Element> keys;
    ValueTile<kDim, Element> values;
    const char* page = begin < share.end ? source.page(begin) : nullptr;
    // Rows of earlier steps can be asked for before this step's row is there, which a tile of
    // halves gets afterwards.
    constexpr bool kPatches = std::is_same_v<Element, __half>;
    const bool early = fresh && begin < min(share.end, kPatches ? tiles : tiles - 1);
    if (early) {
        keys.load(source, page, begin);
        if constexpr (kPatches) values.load(source, page, begin);
    }
    auto* own = reinterpret_cast<float*>(shared + kDim / 16 * kWarp);
    float* work = own + 2 * kDim;
    const bool late = begin < share.end && !early;
    if (fresh) {
        OwnRow<kDim, Element> row(call, at, last, stores);
        wait_for_previous();
        if (late && !stores) keys.load(source, page, begin);
        row.prepare(shared, factors, own, work);
    } else {
        wait_for_previous();
        if (late && !stores) keys.load(source, page, begin);
        const float* q =
            call.q + (static_cast<std::int64_t>(at.row) * call.heads + at.head) * call.query_stride;
        for (int n = warp; n < kTileHeads; n += kWarps) {
            if (n >= at.heads) {
                place_nothing<kDim>(n, shared, factors);
                continue;
            }
            HeadQuads<kDim> head;
            head.load(q + n * call.query_stride);
            place_head<kDim>(head, n, call.scale, shared, factors);
        }
    }
    __syncthreads();
    if (late && stores) keys.load(source, page, begin);
    if constexpr (kPatches) {
        if (early && begin == tiles - 1) {
            keys.put_fresh(last % kRowsTile, own);
            values.put_fresh(last % kRowsTile, own + kDim);
        }
    }
    WarpState<kDim> state;
    state.clear();
    attend_tiles<kDim, Element>(source, begin, share.end, shared, factors, keys, values,
                                kPatches && early, page, state);
    const WarpResults<kDim> results{work, largest, sums};
    if (begin < share.end) results.put(state, at.heads);
    finish_rows<kDim>(call, at, min(kWarps, share.end - share.begin), share.active, results);
}

#endif

}  // namespace strata::cuda
