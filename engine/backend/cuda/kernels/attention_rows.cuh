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

#include "engine/backend/cuda/kernels/attention_inputs.cuh"
#include "engine/backend/cuda/kernels/attention_splits.cuh"
#include "engine/backend/cuda/kernels/split_halves.cuh"
#include "engine/backend/cuda/kernels/warp_instructions.cuh"

namespace strata::cuda {

constexpr int kRowsTile = 16;         // positions of a product's rows
constexpr float kWeightBits = 14.0F;  // the largest weight is 2^14
constexpr int kQueryBits = 10;        // the largest element of a scaled head is 2^10 .. 2^11

__host__ __device__ constexpr int rows_kernel_warps(int dim) {
    return dim <= 64 ? 16 : dim <= 128 ? 12 : 8;
}

// Shared memory: fragments of q, then a result of every warp; before there are any, the heads that
// the block prepares.
constexpr int rows_kernel_shared_bytes(int dim, int group) {
    const int results = rows_kernel_warps(dim) * tile_heads_max(group);
    const int prepared = tile_heads_max(group) + 1;  // and the key's
    return dim / 16 * kWarp * 16 +
           (results > prepared ? results : prepared) * dim * static_cast<int>(sizeof(float));
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
};

// q as the column operand of product j: halves (high: x, y; low: z, w) of head lane / 4, dimensions
// 32 (j / 2) + 8 (lane % 4) + 4 (j % 2) .. + 3. Fills `fragments` and the heads' scale factors.
// Head n begins at q + n * stride.
template <int kDim>
__device__ void place_queries(const float* q_heads, int stride, int heads, float scale,
                              uint4* fragments, float* factors) {
    const int lane = threadIdx.x % kWarp;
    constexpr int kQuads = kDim / 4;
    constexpr int kPerLane = (kQuads + kWarp - 1) / kWarp;
    for (int n = threadIdx.x / kWarp; n < kTileHeads; n += rows_kernel_warps(kDim)) {
        const float* q = q_heads + n * stride;
        float4 quads[kPerLane];
        float largest = 0.0F;
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) {
            const int u = lane + i * kWarp;
            quads[i] = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
            if (n < heads && u < kQuads) quads[i] = reinterpret_cast<const float4*>(q)[u];
            largest = fmaxf(largest, fmaxf(fmaxf(fabsf(quads[i].x), fabsf(quads[i].y)),
                                           fmaxf(fabsf(quads[i].z), fabsf(quads[i].w))));
        }
        largest = warp_max(largest);
        constexpr int kExponentMax = 100;  // beyond it a factor or its inverse would not be normal
        const int exponent =
            min(max((__float_as_int(largest) >> 23 & 255) - 127, -kExponentMax), kExponentMax);
        const float up = ldexpf(1.0F, kQueryBits - exponent);
        if (lane == 0) factors[n] = ldexpf(scale * kLog2E, exponent - kQueryBits);
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) {
            const int u = lane + i * kWarp;
            if (u >= kQuads) break;
            const SplitPair a = split_pair(quads[i].x * up, quads[i].y * up);
            const SplitPair b = split_pair(quads[i].z * up, quads[i].w * up);
            const int product = u / 8 * 2 + u % 2;
            fragments[product * kWarp + n * 4 + u % 8 / 2] = {a.high, b.high, a.low, b.low};
        }
    }
}

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

// The warps' states become the block's result, in the order of the warps; the first `warps` have
// positions.
template <int kDim>
__device__ void join_warps(WarpState<kDim>& state, int warps, int heads,
                           const BlockResult& result) {
    constexpr int kWarps = rows_kernel_warps(kDim);
    __shared__ float largest[kWarps][kTileHeads];
    __shared__ float sums[kWarps][kTileHeads];
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
    const int column = lane % 4 * 2;
#pragma unroll
    for (int e = 0; e < 2; ++e) {
#pragma unroll
        for (int step = 4; step < kWarp; step *= 2) {
            state.sums[e] += __shfl_xor_sync(kAllLanes, state.sums[e], step);
        }
        if (lane < 4) largest[warp][column + e] = state.largest[e];
        if (lane < 4) sums[warp][column + e] = state.sums[e];
    }
    __syncthreads();
#pragma unroll
    for (int e = 0; e < 2; ++e) {
        if (column + e >= heads || warp >= warps) continue;
        float top = kHidden;
        for (int w = 0; w < warps; ++w) top = fmaxf(top, largest[w][column + e]);
        const float factor = power_of_two(state.largest[e] - top);
        float* to = result.weighted + (warp * heads + column + e) * kDim + lane / 4 * 8;
#pragma unroll
        for (int t = 0; t < kDim / 16; ++t) {
            *reinterpret_cast<float2*>(to + t / 4 * 64 + t % 4 * 2) =
                make_float2(state.weighted[t][e] * factor, state.weighted[t][e + 2] * factor);
        }
    }
    if (threadIdx.x < kTileHeads) {
        const int head = static_cast<int>(threadIdx.x);
        float top = kHidden;
        for (int w = 0; w < warps; ++w) top = fmaxf(top, largest[w][head]);
        float all = 0.0F;
        for (int w = 0; w < warps; ++w) {
            all = fmaf(sums[w][head], power_of_two(largest[w][head] - top), all);
        }
        result.largest[head] = top;
        result.sums[head] = all;
    }
    __syncthreads();
    const int count = heads * kDim;
    for (int i = static_cast<int>(threadIdx.x); i < count; i += kWarps * kWarp) {
        float all = result.weighted[i];
        for (int w = 1; w < warps; ++w) all += result.weighted[w * count + i];
        result.weighted[i] = all;
    }
    __syncthreads();
}

// Tiles share.begin + warp, + kWarps, ...; the next tile's keys are on their way while one is
// computed.
template <int kDim, class Element>
__device__ __forceinline__ void attend_tiles(const TileSource& source, int begin, int end,
                                             const uint4* fragments, const float* all_factors,
                                             KeyTile<kDim, Element>& keys, const char* page,
                                             WarpState<kDim>& state) {
    constexpr int kWarps = rows_kernel_warps(kDim);
    const int lane = threadIdx.x % kWarp;
    const float factors[2] = {all_factors[lane % 4 * 2], all_factors[lane % 4 * 2 + 1]};
    for (int tile = begin; tile < end; tile += kWarps) {
        ValueTile<kDim, Element> values;
        values.load(source, page, tile);
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

// Turns pairs (d, d + kOffset * kWarp) of a head whose element lane + i * kWarp is v[i].
template <int kOffset, int kPerLane>
__device__ __forceinline__ void rotate_halves(float (&v)[kPerLane],
                                              const float2 (&angles)[kPerLane / 2]) {
#pragma unroll
    for (int i = 0; i < kOffset; ++i) {
        const float a = v[i];
        const float b = v[i + kOffset];
        v[i] = a * angles[i].x - b * angles[i].y;
        v[i + kOffset] = a * angles[i].y + b * angles[i].x;
    }
}

// prepare_head() of the head at `from`, into `head` of shared memory and `to`. All that it reads is
// on its way before the first of it is used, where pairs are as models have them: whole heads, or
// 64 elements of them, in halves.
template <int kDim>
__device__ __forceinline__ void prepare_fresh_head(const QkPreparation& preparation,
                                                   const float* gain, const float* from,
                                                   float* head, const HeadRow& to) {
    constexpr int kPerLane = kDim / kWarp;
    constexpr int kAll = kPerLane / 2;
    const int lane = threadIdx.x % kWarp;
    float v[kPerLane];
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) v[i] = from[lane + i * kWarp];
    const std::int64_t pairs = preparation.rope_pairs;
    if (preparation.pairing != RotaryPairs::halves || (pairs != kAll * kWarp && pairs != kWarp)) {
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) head[lane + i * kWarp] = v[i];
        __syncwarp();
        prepare_head(preparation, gain, 0, kDim, head, to);
        return;
    }
    float2 angles[kAll];
#pragma unroll
    for (int i = 0; i < kAll; ++i) {
        if (i * kWarp >= pairs) break;
        angles[i] = reinterpret_cast<const float2*>(preparation.rope_table)[lane + i * kWarp];
    }
    if (gain != nullptr) {
        float gains[kPerLane];
        float squares = 0.0F;
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) gains[i] = __ldg(gain + lane + i * kWarp);
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) squares = fmaf(v[i], v[i], squares);
        const float factor = inverse_rms(warp_sum(squares), kDim, preparation.epsilon);
#pragma unroll
        for (int i = 0; i < kPerLane; ++i) v[i] *= factor * gains[i];
    }
    if (pairs == kWarp) {
        rotate_halves<1>(v, angles);
    } else {
        rotate_halves<kAll>(v, angles);
    }
#pragma unroll
    for (int i = 0; i < kPerLane; ++i) {
        head[lane + i * kWarp] = v[i];
        to.put(lane + i * kWarp, v[i]);
    }
}

// The fresh row of the step: a warp prepares each of the block's query heads in `heads`, and where
// the block has the row's position (`stores`), one the key and one the value, into the page.
template <int kDim, class Element>
__device__ void prepare_fresh_row(const AttentionCall& call, const BlockPlace& at, int position,
                                  bool stores, float* heads) {
    const int lane = threadIdx.x % kWarp;
    constexpr bool kCodes = std::is_same_v<Element, std::int8_t>;
    const int tasks = at.heads + (stores ? 2 : 0);
    const auto stored = [&](std::size_t offset) {
        char* page = static_cast<char*>(call.step.pages[position / static_cast<int>(kPageTokens)]);
        const int row = position % static_cast<int>(kPageTokens) * call.kv_heads + at.kv_head;
        return HeadRow{page + offset + static_cast<std::size_t>(row * kDim) * sizeof(__half), true};
    };
    const auto coded = [&](std::size_t offset, const CodedRow& places) {
        char* page = static_cast<char*>(call.step.pages[position / static_cast<int>(kPageTokens)]);
        return page + offset + position % static_cast<int>(kPageTokens) * places.bytes;
    };
    for (int n = threadIdx.x / kWarp; n < tasks; n += rows_kernel_warps(kDim)) {
        if constexpr (kCodes) {
            if (n > at.heads) {
                store_codes(call.fresh_v + at.kv_head * kDim, kDim,
                            coded(call.v_offset, call.coded_v), call.coded_v, at.kv_head,
                            call.kv_heads);
                continue;
            }
        } else if (n > at.heads) {
            const HeadRow to = stored(call.v_offset);
            for (int d = lane; d < kDim; d += kWarp) {
                to.put(d, call.fresh_v[at.kv_head * kDim + d]);
            }
            continue;
        }
        const bool key = n == at.heads;
        const float* from =
            key ? call.fresh_k + at.kv_head * kDim : call.q + (at.head + n) * call.query_stride;
        float* head = heads + n * kDim;
        prepare_fresh_head<kDim>(call.preparation,
                                 key ? call.preparation.k_gain : call.preparation.q_gain, from,
                                 head, key && !kCodes ? stored(call.k_offset) : HeadRow{});
        if constexpr (kCodes) {
            if (!key) continue;
            __syncwarp();
            store_codes(head, kDim, coded(call.k_offset, call.coded_k), call.coded_k, at.kv_head,
                        call.kv_heads);
        }
    }
    __syncthreads();
}

// Grid: splits, kv_heads * head_tiles, rows of the launch.
template <int kDim, class Element>
__global__ void __launch_bounds__(rows_kernel_warps(kDim) * kWarp, 1)
    attention_rows_kernel(const __grid_constant__ AttentionCall call) {
    constexpr int kWarps = rows_kernel_warps(kDim);
    extern __shared__ uint4 shared[];
    __shared__ float factors[kTileHeads];
    __shared__ float largest[kTileHeads];
    __shared__ float sums[kTileHeads];
    let_next_start();
    // The step's own memory is written before its first kernel starts.
    const BlockPlace at = block_place(call);
    const int last = static_cast<int>(call.step.head->first) + at.row;
    const int tiles = last / kRowsTile + 1;
    const PositionShare share =
        share_positions(tiles, kWarps, static_cast<int>(gridDim.x), at.split);
    if (share.begin == share.end) return;
    const TileSource source{&call, at.kv_head, last};
    const int begin = share.begin + static_cast<int>(threadIdx.x) / kWarp;
    const bool fresh = call.fresh_k != nullptr;
    const bool stores = fresh && share.end == tiles;
    KeyTile<kDim, Element> keys;
    const char* page = begin < share.end ? source.page(begin) : nullptr;
    // Rows of earlier steps can be asked for before this step's row is there, which a tile of
    // halves gets afterwards.
    constexpr bool kPatches = std::is_same_v<Element, __half>;
    const bool early = fresh && begin < min(share.end, kPatches ? tiles : tiles - 1);
    if (early) keys.load(source, page, begin);
    wait_for_previous();
    const bool late = begin < share.end && !early;
    if (late && !stores) keys.load(source, page, begin);
    auto* work = reinterpret_cast<float*>(shared + kDim / 16 * kWarp);
    if (fresh) {
        prepare_fresh_row<kDim, Element>(call, at, last, stores, work);
        place_queries<kDim>(work, kDim, at.heads, call.scale, shared, factors);
    } else {
        const std::int64_t head = static_cast<std::int64_t>(at.row) * call.heads + at.head;
        place_queries<kDim>(call.q + head * call.query_stride, call.query_stride, at.heads,
                            call.scale, shared, factors);
    }
    __syncthreads();
    if (late && stores) keys.load(source, page, begin);
    if constexpr (kPatches) {
        if (early && begin == tiles - 1) {
            keys.put_fresh(last % kRowsTile, work + at.heads * kDim);
        }
    }
    WarpState<kDim> state;
    state.clear();
    attend_tiles<kDim, Element>(source, begin, share.end, shared, factors, keys, page, state);
    const BlockResult result{work, largest, sums};
    join_warps<kDim>(state, min(kWarps, share.end - share.begin), at.heads, result);
    finish_block<4>(call, at, share.active, result);
}

#endif

}  // namespace strata::cuda
