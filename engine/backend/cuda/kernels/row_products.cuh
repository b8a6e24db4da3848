// Products of weights with one row (launch/row_products.hpp). As many blocks as the chip holds at
// once, their teams of warps taking row pairs in turn. The first pair's weights are on their way
// while the block waits for its input and prepares it in shared memory, those of the next pair
// while the one before it is computed (kRefills), or summed up and written.
//
// A team is one warp where there are row pairs for all of them. Where there are fewer, or so few
// more that half of the warps would have twice as many as the others, 2 or 4 warps share a pair:
// each has a part of its columns, and the first of them adds up what they have, in their order.
#pragma once

#include "engine/backend/cuda/kernels/products.cuh"
#include "engine/backend/cuda/launch/row_products.hpp"

namespace strata::cuda {

// A block fills a multiprocessor's registers. Fewer bytes under way than its 16 warps have (64 KiB)
// leave the memory idle: twelve warps with half the depth, and room for the next kernel beside
// them, were measured to be a third slower. Two blocks of half the size would both read and prepare
// the row: 4.3 instead of 2.6 us for 12,288 values.
constexpr int kRowThreads = 512;
constexpr int kRowWarps = kRowThreads / kWarp;
// Times eight elements of a normed row that a thread keeps in registers: rows of up to 8,192.
constexpr int kNormEights = 2;
constexpr int kRowEights = 3;  // the same of a row as it is, which may be longer than they hold

// Groups of a row that a lane has under way. All that is under way has a place in the first-level
// cache: beyond what that takes, loads only stand in the way of the row's. Q6_K's groups are half
// as large again as Q4_K's.
template <ElementType kType>
constexpr int kRowGroups = kType == ElementType::q6_k ? 3 : kDepth<kType, 1>;
// A group that is computed makes room for the next one at once, so that a warp that computes still
// waits for something. Q8_0 computes too little between its loads: it is 1 % slower so.
template <ElementType kType>
constexpr bool kRefills = kType != ElementType::q8_0;

// What a block needs for its first loads comes first: parameters are fetched line by line. Fixed
// width on purpose: device code compares and multiplies 32 bits in one instruction.
struct RowWork {
    std::int32_t pairs;      // row pairs of all parts
    std::int32_t team_bits;  // 2^this many warps share a pair: 1, 2 or 4
    RowInput input;
    std::int32_t first_pair[kProductPartsMax + 1];
    ProductPart parts[kProductPartsMax];
};

// Codes in shared memory: the first 16 of all groups, then the second 16, so that neighbouring
// lanes read neighbouring 16 bytes.
struct SharedCodes {
    int4* first;
    int4* second;
    float2* scaled;

    __device__ __forceinline__ void load(std::uint32_t group, int4& low, int4& high,
                                         float2& steps) const {
        low = first[group];
        high = second[group];
        steps = scaled[group];
    }
};

__device__ __forceinline__ SharedCodes shared_codes(int4* at, std::uint32_t groups) {
    return {at, at + groups, reinterpret_cast<float2*>(at + 2 * groups)};
}

__device__ __forceinline__ float row_block_sum(float value) {
    __shared__ float4 sums[kRowWarps / 4];
    value = warp_sum(value);
    if (threadIdx.x % kWarp == 0) reinterpret_cast<float*>(sums)[threadIdx.x / kWarp] = value;
    __syncthreads();
    float total = 0.0F;
#pragma unroll
    for (const float4& four : sums) total += (four.x + four.y) + (four.z + four.w);
    return total;
}

// Eight neighbouring elements of a row.
struct Eight {
    float of[8];

    // Number i of the row; zeros where it is not `inside`.
    __device__ __forceinline__ static Eight load(const float* row, int i, bool inside) {
        Eight out{};
        if (!inside) return out;
        const auto* at = reinterpret_cast<const float4*>(row) + 2 * i;
        const float4 one = at[0];
        const float4 other = at[1];
        return {{one.x, one.y, one.z, one.w, other.x, other.y, other.z, other.w}};
    }
};

// The codes of the row: four lanes make those of a group. `i`: which eight of the row.
__device__ __forceinline__ void write_codes(const Eight& v, int i, bool inside,
                                            const SharedCodes& out) {
    float largest = 0.0F;
#pragma unroll
    for (const float one : v.of) largest = fmaxf(largest, fabsf(one));
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 1));
    largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, 2));
    const CodeScale scale = code_scale(largest);
    unsigned words[2];
#pragma unroll
    for (int w = 0; w < 2; ++w) {
        const auto code = [&](int e) {
            return static_cast<unsigned>(__float2int_rn(__fmul_rn(v.of[4 * w + e], scale.inverse)));
        };
        constexpr unsigned kFirstBytes = 0x0040;
        constexpr unsigned kFirstHalves = 0x5410;
        words[w] = __byte_perm(__byte_perm(code(0), code(1), kFirstBytes),
                               __byte_perm(code(2), code(3), kFirstBytes), kFirstHalves);
    }
    constexpr int kOnes = 0x01010101;
    int total = __dp4a(static_cast<int>(words[0]), kOnes, 0);
    total = __dp4a(static_cast<int>(words[1]), kOnes, total);
    total += __shfl_xor_sync(kAllLanes, total, 1);
    total += __shfl_xor_sync(kAllLanes, total, 2);
    if (!inside) return;
    const int group = i / 4;
    const int place = i % 4;
    int4* half = place < 2 ? out.first : out.second;
    reinterpret_cast<uint2*>(half + group)[place % 2] = make_uint2(words[0], words[1]);
    if (place == 0) {
        out.scaled[group] =
            make_float2(scale.step, __fmul_rn(scale.step, static_cast<float>(total)));
    }
}

// Calls write(eight elements, which eight, inside) for all of the row, normed if it is to be. All
// threads call together. wait_for_previous() is called inside, after the gains are on their way.
template <class Write>
__device__ __forceinline__ void prepare_row(const RowInput& input, const Write& write) {
    const int eights = static_cast<int>(input.cols / 8);
    const auto thread = static_cast<int>(threadIdx.x);
    Eight v[kRowEights];
    Eight gain[kNormEights];
    const auto load_row = [&](int base) {
#pragma unroll
        for (int n = 0; n < kRowEights; ++n) {
            const int i = base + n * kRowThreads + thread;
            v[n] = Eight::load(input.x, i, i < eights);
        }
    };
    if (input.gain != nullptr) {
#pragma unroll
        for (int n = 0; n < kNormEights; ++n) {
            const int i = n * kRowThreads + thread;
            gain[n] = Eight::load(input.gain, i, i < eights);
        }
    }
    wait_for_previous();
    load_row(0);
    if (input.gain != nullptr) {
        float squares = 0.0F;
#pragma unroll
        for (int n = 0; n < kNormEights; ++n) {
#pragma unroll
            for (const float one : v[n].of) squares += one * one;
        }
        const float factor =
            inverse_rms(row_block_sum(squares), static_cast<int>(input.cols), input.epsilon);
#pragma unroll
        for (int n = 0; n < kNormEights; ++n) {
#pragma unroll
            for (int e = 0; e < 8; ++e) v[n].of[e] *= factor * gain[n].of[e];
        }
    }
#pragma unroll 1
    for (int base = 0; base < eights; base += kRowEights * kRowThreads) {
        if (base > 0) load_row(base);
#pragma unroll
        for (int n = 0; n < kRowEights; ++n) {
            const int i = base + n * kRowThreads + thread;
            if (base + n * kRowThreads >= eights) break;
            write(v[n], i, i < eights);
        }
    }
}

// The two weight rows of a pair: neighbours of one part, or a gate row and its up row.
struct RowPair {
    int part = 0;
    int first = 0;
    bool both = true;
};
template <bool kGated>
__device__ __forceinline__ RowPair row_pair(const RowWork& work, int pair) {
    RowPair out;
    if constexpr (kGated) {
        out.first = pair;
    } else {
        while (pair >= work.first_pair[out.part + 1]) ++out.part;
        out.first = (pair - work.first_pair[out.part]) * kWarpRows;
        out.both = out.first + 1 < static_cast<int>(work.parts[out.part].rows);
    }
    return out;
}
template <bool kGated>
__device__ __forceinline__ void locate(const RowWork& work, const RowPair& pair,
                                       Planes (&planes)[kWarpRows],
                                       std::int64_t (&row)[kWarpRows]) {
    planes[0] = work.parts[pair.part].planes;
    planes[1] = kGated ? work.parts[1].planes : planes[0];
    row[0] = pair.first;
    row[1] = !kGated && pair.both ? pair.first + 1 : pair.first;
}

// What the pair's rows are added to: the bias and what y holds. Asked for before the product.
template <bool kGated>
__device__ __forceinline__ float base_of(const RowWork& work, const RowPair& pair) {
    const int lane = threadIdx.x % kWarp;
    if (kGated || lane >= kWarpRows || (lane == 1 && !pair.both)) return 0.0F;
    const ProductPart& of = work.parts[pair.part];
    float base = of.bias != nullptr ? of.bias[pair.first + lane] : 0.0F;
    if (of.accumulate) base += of.y[pair.first + lane];
    return base;
}

template <bool kGated>
__device__ __forceinline__ void write_pair(const RowWork& work, const RowPair& pair, float base,
                                           float first, float second) {
    const int lane = threadIdx.x % kWarp;
    if constexpr (kGated) {
        if (lane != 0) return;
        const float gate = __fmul_rn(first, work.parts[0].scale);
        const float up = __fmul_rn(second, work.parts[1].scale);
        work.parts[0].y[pair.first] = __fmul_rn(silu(gate), up);
    } else {
        if (lane >= kWarpRows || (lane == 1 && !pair.both)) return;
        const ProductPart& of = work.parts[pair.part];
        of.y[pair.first + lane] = __fmaf_rn(lane == 0 ? first : second, of.scale, base);
    }
}

// Where a warp stands in its team of 2^bits warps, and the sums of the team.
class Team {
  public:
    __device__ __forceinline__ explicit Team(int bits) : bits_(bits) {}

    __device__ __forceinline__ int member() const { return warp() & (size() - 1); }
    // Where this member's part of `count` begins; of the next member with 1 as `next`.
    __device__ __forceinline__ int part_begin(int count, int next = 0) const {
        return (member() + next) * count >> bits_;
    }
    // Of all teams of `blocks` blocks, seen from block `block`.
    __device__ __forceinline__ int number(int block) const {
        return block * (kRowWarps >> bits_) + (warp() >> bits_);
    }
    __device__ __forceinline__ int count(int blocks) const { return blocks * (kRowWarps >> bits_); }

    // The members' values together, in the first one.
    __device__ __forceinline__ float2 sum(float2 mine) {
        if (bits_ == 0) return mine;
        // Two places: a member that goes on may write the next pair's sums before these are read.
        __shared__ float2 places[2][kRowWarps];
        float2* all = places[turn_];
        turn_ ^= 1;
        if (threadIdx.x % kWarp == 0) all[warp()] = mine;
        asm volatile("bar.sync %0, %1;" ::"r"(1 + (warp() >> bits_)), "r"(kWarp << bits_)
                     : "memory");
        if (member() != 0) return mine;
        for (int other = 1; other < size(); ++other) {
            mine.x += all[warp() + other].x;
            mine.y += all[warp() + other].y;
        }
        return mine;
    }

  private:
    __device__ __forceinline__ static int warp() { return static_cast<int>(threadIdx.x) / kWarp; }
    __device__ __forceinline__ int size() const { return 1 << bits_; }
    int bits_;
    int turn_ = 0;
};

// The end of a pair whose sums the team's members have.
template <bool kGated>
__device__ __forceinline__ void finish_pair(const RowWork& work, Team& team, const RowPair& pair,
                                            float base, const float (&sum)[kWarpRows][1]) {
    const float2 both = team.sum(make_float2(warp_sum(sum[0][0]), warp_sum(sum[1][0])));
    if (team.member() == 0) write_pair<kGated>(work, pair, base, both.x, both.y);
}

// The pairs of a team, one after another: ask(pair) for its first weights, prepare() the row once,
// add(sums) its products. What is asked for is on its way while the row is prepared, or the pair
// before it is summed up and written.
template <bool kGated, class Ask, class Prepare, class Add>
__device__ __forceinline__ void take_turns(const RowWork& work, Team team, int block, int blocks,
                                           const Ask& ask, const Prepare& prepare, const Add& add) {
    RowPair pair;
    RowPair now;
    float base = 0.0F;
    float sum[kWarpRows][1];
    bool prepared = false;
#pragma unroll 1
    for (int at = team.number(block);; at += team.count(blocks)) {
        if (at < work.pairs) {
            pair = row_pair<kGated>(work, at);
            ask(pair);
        }
        if (prepared) {
            finish_pair<kGated>(work, team, now, base, sum);
        } else {
            prepare();
            __syncthreads();
            prepared = true;
        }
        if (at >= work.pairs) return;
        now = pair;
        base = team.member() == 0 ? base_of<kGated>(work, now) : 0.0F;
        sum[0][0] = sum[1][0] = 0.0F;
        add(sum);
    }
}

// The same where add(sums, more, next) itself asks for the next pair's first weights, if there are
// `more`: the first pair is asked for once, outside the loop, as what the loop carries must not be
// moved between registers before it has come.
template <bool kGated, class Ask, class Prepare, class Add>
__device__ __forceinline__ void take_refilled_turns(const RowWork& work, Team team, int block,
                                                    int blocks, const Ask& ask,
                                                    const Prepare& prepare, const Add& add) {
    int at = team.number(block);
    RowPair now;
    if (at < work.pairs) {
        now = row_pair<kGated>(work, at);
        ask(now);
    }
    prepare();
    __syncthreads();
    float sum[kWarpRows][1];
#pragma unroll 1
    while (at < work.pairs) {
        at += team.count(blocks);
        const bool more = at < work.pairs;
        const RowPair next = more ? row_pair<kGated>(work, at) : now;
        const float base = team.member() == 0 ? base_of<kGated>(work, now) : 0.0F;
        sum[0][0] = sum[1][0] = 0.0F;
        add(sum, more, next);
        finish_pair<kGated>(work, team, now, base, sum);
        now = next;
    }
}

// Block `block` of `blocks` that share the work. kWhole: rows are whole tiles; else teams have one
// warp.
template <ElementType kType, bool kGated, bool kWhole>
__device__ __forceinline__ void multiply_quantised_row(const RowWork& work, int block, int blocks) {
    extern __shared__ int4 shared[];
    let_next_start();
    using Product = QuantisedRowsProduct<kType, 1, kRowGroups<kType>>;
    constexpr int kTileBytes = tile_layout(kType).bytes;
    const auto groups = static_cast<std::uint32_t>(work.input.cols / kGroupElements);
    const SharedCodes codes = shared_codes(shared, groups);
    const std::uint32_t* grid = shared_grid<kType>();
    const Team team(kWhole ? work.team_bits : 0);
    const auto lane = threadIdx.x % kWarp;
    const auto tiles = static_cast<int>(groups / kTileGroups);
    const int first_tile = team.part_begin(tiles);
    const int last_tile = team.part_begin(tiles, 1);
    Product product;
    Planes planes[kWarpRows];
    std::uint32_t start[kWarpRows];
    const std::uint8_t* tile[kWarpRows];
    // Where the rows of a pair begin for this member.
    const auto place = [&](const RowPair& pair, const std::uint8_t*(&at)[kWarpRows]) {
        std::int64_t row[kWarpRows];
        locate<kGated>(work, pair, planes, row);
#pragma unroll
        for (int r = 0; r < kWarpRows; ++r) {
            start[r] = static_cast<std::uint32_t>(row[r]) * groups;
            at[r] = planes[r].codes + (row[r] * tiles + first_tile) * kTileBytes;
        }
    };
    const auto ask = [&](const RowPair& pair) {
        place(pair, tile);
        if constexpr (kWhole) {
            product.load_tiles(tile, last_tile - first_tile);
        } else {
            product.load(planes, start, lane, groups);
        }
    };
    const auto prepare = [&] {
        prepare_row(work.input,
                    [&](const Eight& v, int i, bool inside) { write_codes(v, i, inside, codes); });
    };
    if constexpr (kWhole && kRefills<kType>) {
        const auto add = [&](float(&sum)[kWarpRows][1], bool more, const RowPair& pair) {
            const std::uint8_t* next[kWarpRows] = {};
            if (more) place(pair, next);
            for (int done = first_tile; done < last_tile; done += Product::kTurn) {
                product.add_and_refill(codes, static_cast<unsigned>(done * kTileGroups) + lane,
                                       tile, last_tile - done, next, grid, sum);
#pragma unroll
                for (int r = 0; r < kWarpRows; ++r) tile[r] += Product::kTurn * kTileBytes;
            }
#pragma unroll
            for (int r = 0; r < kWarpRows; ++r) tile[r] = next[r];
        };
        take_refilled_turns<kGated>(work, team, block, blocks, ask, prepare, add);
    } else {
        const auto add = [&](float(&sum)[kWarpRows][1]) {
            constexpr std::uint32_t kFirstRow[1] = {0};
            if constexpr (kWhole) {
                product.run_tiles(tile, first_tile, last_tile, codes, kFirstRow, grid, sum);
            } else {
                product.run(planes, start, codes, kFirstRow, groups, grid, true, sum);
            }
        };
        take_turns<kGated>(work, team, block, blocks, ask, prepare, add);
    }
}

template <ElementType kType, bool kGated, bool kWhole>
__global__ void __launch_bounds__(kRowThreads, 1)
    quantised_row_kernel(const __grid_constant__ RowWork work) {
    multiply_quantised_row<kType, kGated, kWhole>(work, static_cast<int>(blockIdx.x),
                                                  static_cast<int>(gridDim.x));
}

// Two products with the same row by weights of two types, rows of whole tiles: blocks
// 0 .. first_blocks - 1 have the first.
template <ElementType kFirst, ElementType kSecond>
__global__ void __launch_bounds__(kRowThreads, 1)
    two_types_row_kernel(const __grid_constant__ RowWork first,
                         const __grid_constant__ RowWork second, int first_blocks) {
    const auto block = static_cast<int>(blockIdx.x);
    if (block < first_blocks) {
        multiply_quantised_row<kFirst, false, true>(first, block, first_blocks);
    } else {
        multiply_quantised_row<kSecond, false, true>(second, block - first_blocks,
                                                     static_cast<int>(gridDim.x) - first_blocks);
    }
}

template <ElementType kType, bool kGated>
__global__ void __launch_bounds__(kRowThreads, 1)
    float_row_kernel(const __grid_constant__ RowWork work) {
    extern __shared__ int4 shared[];
    let_next_start();
    float* x = reinterpret_cast<float*>(shared);
    using Product = FloatRowsProduct<kType, 1>;
    constexpr std::int64_t kBytes = kType == ElementType::f32 ? 4 : 2;
    const std::int64_t cols = work.input.cols;
    const Team team(work.team_bits);
    const auto pieces = static_cast<int>(cols / Product::kElements);
    const int stages = (pieces + kWarp - 1) / kWarp;
    const std::int64_t first =
        team.part_begin(stages) * kWarp + static_cast<int>(threadIdx.x) % kWarp;
    const std::int64_t end = min(team.part_begin(stages, 1) * kWarp, pieces);
    Product product;
    const std::uint8_t* bytes[kWarpRows];
    const auto ask = [&](const RowPair& pair) {
        Planes planes[kWarpRows];
        std::int64_t row[kWarpRows];
        locate<kGated>(work, pair, planes, row);
        for (int r = 0; r < kWarpRows; ++r) bytes[r] = planes[r].codes + row[r] * cols * kBytes;
        product.load(bytes, first, end);
    };
    const auto prepare = [&] {
        prepare_row(work.input, [&](const Eight& v, int i, bool inside) {
            if (!inside) return;
            auto* to = reinterpret_cast<float4*>(x) + 2 * i;
            to[0] = make_float4(v.of[0], v.of[1], v.of[2], v.of[3]);
            to[1] = make_float4(v.of[4], v.of[5], v.of[6], v.of[7]);
        });
    };
    const auto add = [&](float(&sum)[kWarpRows][1]) {
        constexpr std::int64_t kFirstRow[1] = {0};
        bool loaded = true;
        for (std::int64_t p = first; p < end; p += Product::kTurn * kWarp) {
            if (!loaded) product.load(bytes, p, end);
            loaded = false;
            product.add(x, kFirstRow, cols, p, end, sum);
        }
    };
    take_turns<kGated>(work, team, static_cast<int>(blockIdx.x), static_cast<int>(gridDim.x), ask,
                       prepare, add);
}

}  // namespace strata::cuda
