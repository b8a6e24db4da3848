// Products of weights with one row (launch/row_products.hpp). As many blocks as the chip holds at
// once, their teams of warps taking row pairs in turn. The first pair's weights are on their way
// while the block waits for its input and prepares it in shared memory.
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
// Times four elements of a normed row that a thread keeps in registers: rows of up to 8,192.
constexpr int kNormFours = 4;
constexpr int kRowFours = 3;  // the same of a row as it is, which may be longer than they hold

struct RowWork {
    ProductPart parts[kProductPartsMax];
    std::int64_t first_pair[kProductPartsMax + 1];
    int count;
    int team;  // warps that share a row pair: 1, 2 or 4
    RowInput input;
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

__device__ __forceinline__ void scale_four(float4& v, const float4& gain, float factor) {
    v.x *= factor * gain.x;
    v.y *= factor * gain.y;
    v.z *= factor * gain.z;
    v.w *= factor * gain.w;
}

// Eight lanes make the codes of a group, four elements each. `i`: which four of the row.
__device__ __forceinline__ void write_codes(const float4& v, int i, bool inside,
                                            const SharedCodes& out) {
    float largest = fmaxf(fmaxf(fabsf(v.x), fabsf(v.y)), fmaxf(fabsf(v.z), fabsf(v.w)));
#pragma unroll
    for (int step = 1; step < 8; step *= 2) {
        largest = fmaxf(largest, __shfl_xor_sync(kAllLanes, largest, step));
    }
    const CodeScale scale = code_scale(largest);
    const int c0 = __float2int_rn(__fmul_rn(v.x, scale.inverse));
    const int c1 = __float2int_rn(__fmul_rn(v.y, scale.inverse));
    const int c2 = __float2int_rn(__fmul_rn(v.z, scale.inverse));
    const int c3 = __float2int_rn(__fmul_rn(v.w, scale.inverse));
    int total = c0 + c1 + c2 + c3;
#pragma unroll
    for (int step = 1; step < 8; step *= 2) total += __shfl_xor_sync(kAllLanes, total, step);
    if (!inside) return;
    const int group = i / 8;
    const int place = i % 8;
    int4* half = place < 4 ? out.first : out.second;
    reinterpret_cast<int*>(half + group)[place % 4] =
        (c0 & 0xff) | (c1 & 0xff) << 8 | (c2 & 0xff) << 16 | c3 << 24;
    if (place == 0) {
        out.scaled[group] =
            make_float2(scale.step, __fmul_rn(scale.step, static_cast<float>(total)));
    }
}

// Calls write(four elements, which four, inside) for all of the row, normed if it is to be. All
// threads call together. wait_for_previous() is called inside, after the gains are on their way.
template <class Write>
__device__ __forceinline__ void prepare_row(const RowInput& input, const Write& write) {
    const int fours = static_cast<int>(input.cols / 4);
    const auto* x = reinterpret_cast<const float4*>(input.x);
    const float4 zero = make_float4(0.0F, 0.0F, 0.0F, 0.0F);
    if (input.gain == nullptr) {
        wait_for_previous();
        for (int base = 0; base < fours; base += kRowFours * kRowThreads) {
            float4 v[kRowFours];
#pragma unroll
            for (int n = 0; n < kRowFours; ++n) {
                const int i = base + n * kRowThreads + static_cast<int>(threadIdx.x);
                v[n] = i < fours ? x[i] : zero;
            }
#pragma unroll
            for (int n = 0; n < kRowFours; ++n) {
                const int i = base + n * kRowThreads + static_cast<int>(threadIdx.x);
                if (base + n * kRowThreads >= fours) break;
                write(v[n], i, i < fours);
            }
        }
        return;
    }
    float4 gain[kNormFours];
    float4 v[kNormFours];
#pragma unroll
    for (int n = 0; n < kNormFours; ++n) {
        const int i = n * kRowThreads + static_cast<int>(threadIdx.x);
        gain[n] = i < fours ? __ldg(reinterpret_cast<const float4*>(input.gain) + i) : zero;
    }
    wait_for_previous();
    float squares = 0.0F;
#pragma unroll
    for (int n = 0; n < kNormFours; ++n) {
        const int i = n * kRowThreads + static_cast<int>(threadIdx.x);
        v[n] = i < fours ? x[i] : zero;
        squares += v[n].x * v[n].x + v[n].y * v[n].y + v[n].z * v[n].z + v[n].w * v[n].w;
    }
    const float factor =
        inverse_rms(row_block_sum(squares), static_cast<int>(input.cols), input.epsilon);
#pragma unroll
    for (int n = 0; n < kNormFours; ++n) {
        const int i = n * kRowThreads + static_cast<int>(threadIdx.x);
        if (n * kRowThreads >= fours) break;
        scale_four(v[n], gain[n], factor);
        write(v[n], i, i < fours);
    }
}

// The two weight rows of a pair: neighbours of one part, or a gate row and its up row.
struct RowPair {
    int part = 0;
    std::int64_t first = 0;
    bool both = true;
};
template <bool kGated>
__device__ __forceinline__ RowPair row_pair(const RowWork& work, std::int64_t pair) {
    RowPair out;
    if constexpr (kGated) {
        out.first = pair;
    } else {
        while (pair >= work.first_pair[out.part + 1]) ++out.part;
        out.first = (pair - work.first_pair[out.part]) * kWarpRows;
        out.both = out.first + 1 < work.parts[out.part].rows;
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

// Where a warp stands in its team, and the sums of the team.
class Team {
  public:
    __device__ __forceinline__ explicit Team(int size) : size_(size) {}

    __device__ __forceinline__ int member() const { return warp() % size_; }
    // Where this member's part of `count` begins; of the next member with 1 as `next`.
    __device__ __forceinline__ int part_begin(int count, int next = 0) const {
        return (member() + next) * count / size_;
    }
    // Of all teams of `blocks` blocks, seen from block `block`.
    __device__ __forceinline__ int number(int block) const {
        return block * (kRowWarps / size_) + warp() / size_;
    }
    __device__ __forceinline__ int count(int blocks) const { return blocks * (kRowWarps / size_); }

    // The members' values together, in the first one.
    __device__ __forceinline__ float2 sum(float2 mine) {
        if (size_ == 1) return mine;
        // Two places: a member that goes on may write the next pair's sums before these are read.
        __shared__ float2 places[2][kRowWarps];
        float2* all = places[turn_];
        turn_ ^= 1;
        if (threadIdx.x % kWarp == 0) all[warp()] = mine;
        asm volatile("bar.sync %0, %1;" ::"r"(1 + warp() / size_), "r"(size_ * kWarp) : "memory");
        if (member() != 0) return mine;
        for (int other = 1; other < size_; ++other) {
            mine.x += all[warp() + other].x;
            mine.y += all[warp() + other].y;
        }
        return mine;
    }

  private:
    __device__ __forceinline__ static int warp() { return static_cast<int>(threadIdx.x) / kWarp; }
    int size_;
    int turn_ = 0;
};

// Block `block` of `blocks` that share the work. kWhole: rows are whole tiles; else teams have one
// warp.
template <ElementType kType, bool kGated, bool kWhole>
__device__ __forceinline__ void multiply_quantised_row(const RowWork& work, int block, int blocks) {
    extern __shared__ int4 shared[];
    let_next_start();
    using Product = QuantisedRowsProduct<kType, 1>;
    constexpr int kTileBytes = tile_layout(kType).bytes;
    const auto groups = static_cast<std::uint32_t>(work.input.cols / kGroupElements);
    const SharedCodes codes{shared, shared + groups,
                            reinterpret_cast<float2*>(shared + 2 * groups)};
    const std::uint32_t* grid = shared_grid<kType>();
    const int total = static_cast<int>(work.first_pair[work.count]);
    Team team(kWhole ? work.team : 1);
    const int stride = team.count(blocks);
    int at = team.number(block);
    const auto tiles = static_cast<int>(groups / kTileGroups);
    const int first_tile = team.part_begin(tiles);
    const int last_tile = team.part_begin(tiles, 1);
    const auto lane = threadIdx.x % kWarp;
    Product product;
    Planes planes[kWarpRows];
    std::uint32_t start[kWarpRows];
    const std::uint8_t* tile[kWarpRows];
    RowPair pair;
    const auto go_on = [&] {
        if (at >= total) return;
        pair = row_pair<kGated>(work, at);
        std::int64_t row[kWarpRows];
        locate<kGated>(work, pair, planes, row);
#pragma unroll
        for (int r = 0; r < kWarpRows; ++r) {
            start[r] = static_cast<std::uint32_t>(row[r]) * groups;
            tile[r] = planes[r].codes + (row[r] * tiles + first_tile) * kTileBytes;
        }
        if constexpr (kWhole) {
            product.load_tiles(tile, last_tile - first_tile);
        } else {
            product.load(planes, start, lane, groups);
        }
    };
    go_on();
    prepare_row(work.input,
                [&](const float4& v, int i, bool inside) { write_codes(v, i, inside, codes); });
    __syncthreads();
    constexpr std::uint32_t kFirstRow[1] = {0};
    while (at < total) {
        const RowPair now = pair;
        const float base = team.member() == 0 ? base_of<kGated>(work, now) : 0.0F;
        float sum[kWarpRows][1] = {};
        if constexpr (kWhole) {
            const std::uint32_t end = static_cast<std::uint32_t>(last_tile) * kTileGroups;
            for (int done = first_tile; done < last_tile; done += Product::kTurn) {
                if (done > first_tile) product.load_tiles(tile, last_tile - done);
#pragma unroll
                for (int r = 0; r < kWarpRows; ++r) tile[r] += Product::kTurn * kTileBytes;
                product.add(codes, kFirstRow, static_cast<std::uint32_t>(done) * kTileGroups + lane,
                            end, grid, sum);
            }
        } else {
            product.run(planes, start, codes, kFirstRow, groups, grid, true, sum);
        }
        at += stride;
        go_on();
        const float2 both = team.sum(make_float2(warp_sum(sum[0][0]), warp_sum(sum[1][0])));
        if (team.member() == 0) write_pair<kGated>(work, now, base, both.x, both.y);
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
    const int total = static_cast<int>(work.first_pair[work.count]);
    Team team(work.team);
    const int stride = team.count(static_cast<int>(gridDim.x));
    int at = team.number(static_cast<int>(blockIdx.x));
    const auto pieces = static_cast<int>(cols / Product::kElements);
    const int stages = (pieces + kWarp - 1) / kWarp;
    const std::int64_t first =
        team.part_begin(stages) * kWarp + static_cast<int>(threadIdx.x) % kWarp;
    const std::int64_t end = min(team.part_begin(stages, 1) * kWarp, pieces);
    Product product;
    const std::uint8_t* bytes[kWarpRows];
    RowPair pair;
    const auto go_on = [&] {
        if (at >= total) return;
        pair = row_pair<kGated>(work, at);
        Planes planes[kWarpRows];
        std::int64_t row[kWarpRows];
        locate<kGated>(work, pair, planes, row);
        for (int r = 0; r < kWarpRows; ++r) bytes[r] = planes[r].codes + row[r] * cols * kBytes;
        product.load(bytes, first, end);
    };
    go_on();
    prepare_row(work.input, [&](const float4& v, int i, bool inside) {
        if (inside) reinterpret_cast<float4*>(x)[i] = v;
    });
    __syncthreads();
    constexpr std::int64_t kFirstRow[1] = {0};
    while (at < total) {
        const RowPair now = pair;
        const float base = team.member() == 0 ? base_of<kGated>(work, now) : 0.0F;
        float sum[kWarpRows][1] = {};
        bool loaded = true;
        for (std::int64_t p = first; p < end; p += Product::kTurn * kWarp) {
            if (!loaded) product.load(bytes, p, end);
            loaded = false;
            product.add(x, kFirstRow, cols, p, end, sum);
        }
        at += stride;
        go_on();
        const float2 both = team.sum(make_float2(warp_sum(sum[0][0]), warp_sum(sum[1][0])));
        if (team.member() == 0) write_pair<kGated>(work, now, base, both.x, both.y);
    }
}

}  // namespace strata::cuda
