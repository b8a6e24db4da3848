// Products of weight rows with a few rows of activations. A warp computes two weight rows; its
// lanes take groups (or 16 bytes of a float row) in turn and add up at the end, always in the same
// order. Loads of several groups are under way before the first is used, and those of the first
// turn before the kernel waits for its input.
#pragma once

#include <cuda_bf16.h>

#include "engine/backend/cuda/kernels/weight_groups.cuh"
#include "engine/backend/cuda/launch/products.hpp"

namespace strata::cuda {

constexpr int kProductWarps = 4;
constexpr int kWarpRows = 2;

struct ProductWork {
    ProductPart parts[kProductPartsMax];
    std::int64_t first_pair[kProductPartsMax + 1];  // row pairs of the parts, one after another
    int count;
    std::int64_t cols;
    int tokens;
    const float* x;
    QuantisedView quantised;
};

// The codes of IQ3_S need their table where 32 lanes can read 32 entries at once.
template <ElementType kType>
__device__ __forceinline__ const std::uint32_t* shared_grid() {
    if constexpr (kType == ElementType::iq3_s) {
        __shared__ std::uint32_t words[512];
        for (int i = threadIdx.x; i < 512; i += blockDim.x) words[i] = kGrid.data()[i];
        __syncthreads();
        return words;
    } else {
        return nullptr;
    }
}

// Groups that a lane loads of each row before it uses them.
template <ElementType kType, int kTokens>
constexpr int kDepth = kTokens > 1                  ? 1
                       : kType == ElementType::q8_0 ? 2
                                                    : 4;

// Codes of activations in global memory.
struct GlobalCodes {
    const std::int8_t* codes;
    const float2* scaled;

    __device__ __forceinline__ void load(std::uint32_t group, int4& first, int4& second,
                                         float2& steps) const {
        const auto* at = reinterpret_cast<const int4*>(codes) + 2 * static_cast<std::size_t>(group);
        first = at[0];
        second = at[1];
        steps = scaled[group];
    }
};

// Adds to sum[r][t] the products of groups lane, lane + 32 ... of weight row r with token t, kTurn
// of them under way at a time. Where rows are whole tiles, load_tiles() finds a lane's bytes
// without a division.
template <ElementType kType, int kTokens, int kGroups = kDepth<kType, kTokens>>
struct QuantisedRowsProduct {
    static constexpr int kTurn = kGroups;
    RawGroup<kType> raw[kWarpRows][kTurn];

    __device__ __forceinline__ void load(const Planes (&planes)[kWarpRows],
                                         const std::uint32_t (&start)[kWarpRows],
                                         std::uint32_t first, std::uint32_t groups) {
#pragma unroll
        for (int u = 0; u < kTurn; ++u) {
            const std::uint32_t g = first + u * kWarp;
            if (g >= groups) break;
#pragma unroll
            for (int r = 0; r < kWarpRows; ++r) raw[r][u].load(planes[r], start[r] + g);
        }
    }

    // The first `count` of the tiles at tile[r], at most kTurn of them.
    __device__ __forceinline__ void load_tiles(const std::uint8_t* const (&tile)[kWarpRows],
                                               int count) {
#pragma unroll
        for (int u = 0; u < kTurn; ++u) {
            if (u >= count) break;
#pragma unroll
            for (int r = 0; r < kWarpRows; ++r) {
                raw[r][u].load_place(tile[r] + u * tile_layout(kType).bytes, threadIdx.x % kWarp);
            }
        }
    }

    template <class Codes>
    __device__ __forceinline__ void add(const Codes& x, const std::uint32_t (&x_rows)[kTokens],
                                        std::uint32_t first, std::uint32_t groups,
                                        const std::uint32_t* grid,
                                        float (&sum)[kWarpRows][kTokens]) const {
#pragma unroll
        for (int u = 0; u < kTurn; ++u) {
            const std::uint32_t g = first + u * kWarp;
            if (g >= groups) break;
            Group group[kTokens > 1 ? kWarpRows : 1];
            if constexpr (kTokens > 1) {
#pragma unroll
                for (int r = 0; r < kWarpRows; ++r) group[r] = decode_group<kType>(raw[r][u], grid);
            }
#pragma unroll
            for (int t = 0; t < kTokens; ++t) {
                int4 x0;
                int4 x1;
                float2 scaled;
                x.load(x_rows[t] * groups + g, x0, x1, scaled);
#pragma unroll
                for (int r = 0; r < kWarpRows; ++r) {
                    if constexpr (kTokens > 1) {
                        sum[r][t] = add_product<kType>(sum[r][t], group[r], x0, x1, scaled);
                    } else {
                        sum[r][t] =
                            add_raw_product<kType>(sum[r][t], raw[r][u], x0, x1, scaled, grid);
                    }
                }
            }
        }
    }

    // Adds tiles first .. last - 1 at tile[r], of which the first kTurn are loaded.
    template <class Codes>
    __device__ __forceinline__ void run_tiles(const std::uint8_t* (&tile)[kWarpRows], int first,
                                              int last, const Codes& x,
                                              const std::uint32_t (&x_rows)[kTokens],
                                              const std::uint32_t* grid,
                                              float (&sum)[kWarpRows][kTokens]) {
        for (int done = first; done < last; done += kTurn) {
            if (done > first) load_tiles(tile, last - done);
#pragma unroll
            for (int r = 0; r < kWarpRows; ++r) tile[r] += kTurn * tile_layout(kType).bytes;
            add(x, x_rows, static_cast<unsigned>(done * kTileGroups) + threadIdx.x % kWarp,
                static_cast<unsigned>(last * kTileGroups), grid, sum);
        }
    }

    // As add() for the first kTurn of `count` tiles at tile[r], which are loaded: each makes room
    // for the one kTurn behind it, or, behind the last, for one of the rows at next[r] if there are
    // any.
    template <class Codes>
    __device__ __forceinline__ void add_and_refill(const Codes& x, std::uint32_t first,
                                                   const std::uint8_t* const (&tile)[kWarpRows],
                                                   int count,
                                                   const std::uint8_t* const (&next)[kWarpRows],
                                                   const std::uint32_t* grid,
                                                   float (&sum)[kWarpRows][1]) {
        constexpr int kBytes = tile_layout(kType).bytes;
#pragma unroll
        for (int u = 0; u < kTurn; ++u) {
            if (u >= count) break;
            int4 x0;
            int4 x1;
            float2 scaled;
            x.load(first + u * kWarp, x0, x1, scaled);
#pragma unroll
            for (int r = 0; r < kWarpRows; ++r) {
                sum[r][0] = add_raw_product<kType>(sum[r][0], raw[r][u], x0, x1, scaled, grid);
            }
            const bool own = u + kTurn < count;
            if (!own && next[0] == nullptr) continue;
#pragma unroll
            for (int r = 0; r < kWarpRows; ++r) {
                raw[r][u].load_place(own ? tile[r] + (u + kTurn) * kBytes : next[r] + u * kBytes,
                                     threadIdx.x % kWarp);
            }
        }
    }

    template <class Codes>
    __device__ __forceinline__ void run(const Planes (&planes)[kWarpRows],
                                        const std::uint32_t (&start)[kWarpRows], const Codes& x,
                                        const std::uint32_t (&x_rows)[kTokens],
                                        std::uint32_t groups, const std::uint32_t* grid,
                                        bool loaded, float (&sum)[kWarpRows][kTokens]) {
        for (std::uint32_t g = threadIdx.x % kWarp; g < groups; g += kTurn * kWarp) {
            if (!loaded) load(planes, start, g, groups);
            loaded = false;
            add(x, x_rows, g, groups, grid, sum);
        }
    }
};

template <ElementType kType>
__device__ __forceinline__ void float_values(const uint4& bits, float (&out)[8]) {
    if constexpr (kType == ElementType::f16) {
        const auto* pairs = reinterpret_cast<const __half2*>(&bits);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 two = __half22float2(pairs[i]);
            out[2 * i] = two.x;
            out[2 * i + 1] = two.y;
        }
    } else {
        const auto* pairs = reinterpret_cast<const __nv_bfloat162*>(&bits);
#pragma unroll
        for (int i = 0; i < 4; ++i) {
            const float2 two = __bfloat1622float2(pairs[i]);
            out[2 * i] = two.x;
            out[2 * i + 1] = two.y;
        }
    }
}

// The same for float weights. Columns that do not fill 16 bytes are taken one by one at the end.
template <ElementType kType, int kTokens>
struct FloatRowsProduct {
    static constexpr int kElements = kType == ElementType::f32 ? 4 : 8;  // of 16 bytes
    static constexpr int kTurn = kTokens > 1 ? 1 : 4;
    uint4 raw[kWarpRows][kTurn];

    __device__ __forceinline__ void load(const std::uint8_t* const (&row)[kWarpRows],
                                         std::int64_t first, std::int64_t pieces) {
#pragma unroll
        for (int u = 0; u < kTurn; ++u) {
            const std::int64_t p = first + u * kWarp;
            if (p >= pieces) break;
#pragma unroll
            for (int r = 0; r < kWarpRows; ++r) raw[r][u] = stream_16(row[r] + p * 16);
        }
    }

    __device__ __forceinline__ void add(const float* x, const std::int64_t (&x_rows)[kTokens],
                                        std::int64_t cols, std::int64_t first, std::int64_t pieces,
                                        float (&sum)[kWarpRows][kTokens]) const {
#pragma unroll
        for (int u = 0; u < kTurn; ++u) {
            const std::int64_t p = first + u * kWarp;
            if (p >= pieces) break;
            float w[kWarpRows][8];
#pragma unroll
            for (int r = 0; r < kWarpRows; ++r) {
                if constexpr (kType == ElementType::f32) {
                    const auto* four = reinterpret_cast<const float*>(&raw[r][u]);
#pragma unroll
                    for (int i = 0; i < 4; ++i) w[r][i] = four[i];
                } else {
                    float_values<kType>(raw[r][u], w[r]);
                }
            }
#pragma unroll
            for (int t = 0; t < kTokens; ++t) {
                const auto* in =
                    reinterpret_cast<const float4*>(x + x_rows[t] * cols + p * kElements);
#pragma unroll
                for (int i = 0; i < kElements / 4; ++i) {
                    const float4 v = in[i];
#pragma unroll
                    for (int r = 0; r < kWarpRows; ++r) {
                        sum[r][t] = __fmaf_rn(w[r][4 * i], v.x, sum[r][t]);
                        sum[r][t] = __fmaf_rn(w[r][4 * i + 1], v.y, sum[r][t]);
                        sum[r][t] = __fmaf_rn(w[r][4 * i + 2], v.z, sum[r][t]);
                        sum[r][t] = __fmaf_rn(w[r][4 * i + 3], v.w, sum[r][t]);
                    }
                }
            }
        }
    }
};

template <ElementType kType>
__device__ __forceinline__ float float_at(const std::uint8_t* row, std::int64_t i) {
    if constexpr (kType == ElementType::f32) return reinterpret_cast<const float*>(row)[i];
    if constexpr (kType == ElementType::f16) {
        return __half2float(reinterpret_cast<const __half*>(row)[i]);
    }
    return __bfloat162float(reinterpret_cast<const __nv_bfloat16*>(row)[i]);
}

// Two rows of weights with the tokens of x: what every product here is made of. `row`: of each, its
// number in its planes. wait_for_previous() is called inside.
template <ElementType kType, int kTokens>
__device__ __forceinline__ void multiply_rows(const Planes (&planes)[kWarpRows],
                                              const std::int64_t (&row)[kWarpRows], const float* x,
                                              const QuantisedView& quantised,
                                              const std::int64_t (&x_rows)[kTokens],
                                              std::int64_t cols, const std::uint32_t* grid,
                                              float (&sum)[kWarpRows][kTokens]) {
    const int lane = threadIdx.x % kWarp;
    if constexpr (is_float(kType)) {
        constexpr std::int64_t kBytes = kType == ElementType::f32 ? 4 : 2;
        using Product = FloatRowsProduct<kType, kTokens>;
        const std::uint8_t* bytes[kWarpRows];
        for (int r = 0; r < kWarpRows; ++r) bytes[r] = planes[r].codes + row[r] * cols * kBytes;
        const bool whole = cols % Product::kElements == 0;  // rows begin on 16 bytes
        const std::int64_t pieces = whole ? cols / Product::kElements : 0;
        Product product;
        product.load(bytes, lane, pieces);
        wait_for_previous();
        bool loaded = true;
        for (std::int64_t p = lane; p < pieces; p += Product::kTurn * kWarp) {
            if (!loaded) product.load(bytes, p, pieces);
            loaded = false;
            product.add(x, x_rows, cols, p, pieces, sum);
        }
        for (std::int64_t c = pieces * Product::kElements + lane; c < cols; c += kWarp) {
            for (int r = 0; r < kWarpRows; ++r) {
                const float w = float_at<kType>(bytes[r], c);
                for (int t = 0; t < kTokens; ++t) {
                    sum[r][t] = __fmaf_rn(w, x[x_rows[t] * cols + c], sum[r][t]);
                }
            }
        }
    } else {
        const auto groups = static_cast<std::uint32_t>(cols / kGroupElements);
        const std::uint32_t start[kWarpRows] = {static_cast<std::uint32_t>(row[0]) * groups,
                                                static_cast<std::uint32_t>(row[1]) * groups};
        std::uint32_t tokens[kTokens];
#pragma unroll
        for (int t = 0; t < kTokens; ++t) tokens[t] = static_cast<std::uint32_t>(x_rows[t]);
        QuantisedRowsProduct<kType, kTokens> product;
        product.load(planes, start, lane, groups);
        wait_for_previous();
        const GlobalCodes codes{quantised.codes, quantised.scaled};
        product.run(planes, start, codes, tokens, groups, grid, true, sum);
    }
#pragma unroll
    for (int r = 0; r < kWarpRows; ++r) {
#pragma unroll
        for (int t = 0; t < kTokens; ++t) sum[r][t] = warp_sum(sum[r][t]);
    }
}

// Rows of x for tokens first .. first + kTokens - 1, those past the last one being the last.
template <int kTokens>
__device__ __forceinline__ void token_rows(int tokens, std::int64_t (&out)[kTokens]) {
#pragma unroll
    for (int t = 0; t < kTokens; ++t) out[t] = t < tokens ? t : tokens - 1;
}

template <ElementType kType, int kTokens>
__global__ void __launch_bounds__(kProductWarps* kWarp)
    product_kernel(const __grid_constant__ ProductWork work) {
    let_next_start();
    const std::uint32_t* grid = shared_grid<kType>();
    const std::int64_t pair =
        static_cast<std::int64_t>(blockIdx.x) * kProductWarps + threadIdx.x / kWarp;
    if (pair >= work.first_pair[work.count]) return;
    int part = 0;
    while (pair >= work.first_pair[part + 1]) ++part;
    const ProductPart& of = work.parts[part];
    const std::int64_t first = (pair - work.first_pair[part]) * kWarpRows;
    const bool both = first + 1 < of.rows;
    const Planes planes[kWarpRows] = {of.planes, of.planes};
    const std::int64_t row[kWarpRows] = {first, both ? first + 1 : first};
    std::int64_t x_rows[kTokens];
    token_rows<kTokens>(work.tokens, x_rows);
    float sum[kWarpRows][kTokens] = {};
    multiply_rows<kType, kTokens>(planes, row, work.x, work.quantised, x_rows, work.cols, grid,
                                  sum);
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
        if (t >= work.tokens || lane >= kWarpRows || (lane == 1 && !both)) continue;
        float value = __fmul_rn(lane == 0 ? sum[0][t] : sum[1][t], of.scale);
        if (of.bias != nullptr) value = __fadd_rn(value, of.bias[first + lane]);
        float* y = of.y + t * of.rows + first + lane;
        *y = of.accumulate ? __fadd_rn(*y, value) : value;
    }
}

struct RoutedWork {
    RoutedRows routed;
    RoutedWeight weight;
    std::int64_t rows;  // that are computed of each expert
    std::int64_t cols;
    const float* x;
    QuantisedView quantised;
    float* y;
};

// Tile `tile` of the tiles of kTokens pairs that the experts' lists are cut into: its expert, and
// which pairs. False: there are fewer tiles.
template <int kTokens>
__device__ __forceinline__ bool find_tile(const RoutedRows& routed, int tile, int& expert,
                                          int& begin, int& count) {
    int before = 0;
    for (int e = 0; e < static_cast<int>(routed.expert_count); ++e) {
        const int from = routed.offsets[e];
        const int to = routed.offsets[e + 1];
        const int tiles = (to - from + kTokens - 1) / kTokens;
        if (tile < before + tiles) {
            expert = e;
            begin = from + (tile - before) * kTokens;
            count = min(kTokens, to - begin);
            return true;
        }
        before += tiles;
    }
    return false;
}

// Grid: row pairs of an expert x tiles of pairs.
template <ElementType kType, int kTokens>
__global__ void __launch_bounds__(kProductWarps* kWarp)
    routed_product_kernel(const __grid_constant__ RoutedWork work) {
    let_next_start();
    const std::uint32_t* grid = shared_grid<kType>();
    wait_for_previous();
    int expert = 0;
    int begin = static_cast<int>(blockIdx.y);
    int count = 1;
    if constexpr (kTokens == 1) {
        expert = work.routed.experts[begin];
    } else {
        __shared__ int found[4];
        if (threadIdx.x == 0) {
            found[3] = find_tile<kTokens>(work.routed, begin, found[0], found[1], found[2]);
        }
        __syncthreads();
        if (found[3] == 0) return;
        expert = found[0];
        begin = found[1];
        count = found[2];
    }
    const std::int64_t first =
        (static_cast<std::int64_t>(blockIdx.x) * kProductWarps + threadIdx.x / kWarp) * kWarpRows;
    if (first >= work.rows) return;
    const bool both = first + 1 < work.rows;
    const std::int64_t start = expert * work.weight.rows + work.weight.first_row + first;
    const Planes planes[kWarpRows] = {work.weight.planes, work.weight.planes};
    const std::int64_t row[kWarpRows] = {start, both ? start + 1 : start};
    std::int64_t pairs[kTokens];
    std::int64_t x_rows[kTokens];
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
        const int place = begin + min(t, count - 1);
        pairs[t] = kTokens == 1 ? place : work.routed.places[place];
        x_rows[t] = pairs[t] / work.routed.x_rows_per;
    }
    float sum[kWarpRows][kTokens] = {};
    multiply_rows<kType, kTokens>(planes, row, work.x, work.quantised, x_rows, work.cols, grid,
                                  sum);
    const float scale = work.weight.expert_scales == nullptr ? work.weight.scale
                                                             : work.weight.expert_scales[expert];
    const int lane = threadIdx.x % kWarp;
#pragma unroll
    for (int t = 0; t < kTokens; ++t) {
        if (t >= count || lane >= kWarpRows || (lane == 1 && !both)) continue;
        const float value = lane == 0 ? sum[0][t] : sum[1][t];
        work.y[pairs[t] * work.rows + first + lane] = __fmul_rn(value, scale);
    }
}

// What brings the values of a group to codes of -127 .. 127 and back, by its largest absolute
// value. Without a division: that has branches, which keep a thread's groups from being computed
// side by side. The last bits are free, as long as all kernels have the same ones.
struct CodeScale {
    float inverse;
    float step;
};
__device__ __forceinline__ CodeScale code_scale(float largest) {
    constexpr float kLeast = 0x1p-100F;  // less than this counts as zeros: its inverse has no room
    constexpr float kMost = 127.0F;
    return {largest >= kLeast ? __fdividef(kMost, largest) : 0.0F,
            __fmul_rn(largest, 1.0F / kMost)};
}

// The group's codes and its (step, step * sum), from each lane's element.
__device__ __forceinline__ void quantise_group(float value, std::int64_t group,
                                               const QuantisedView& out) {
    const CodeScale scale = code_scale(warp_max(fabsf(value)));
    const int code = __float2int_rn(__fmul_rn(value, scale.inverse));
    const int lane = threadIdx.x % kWarp;
    out.codes[group * kGroupElements + lane] = static_cast<std::int8_t>(code);
    int total = code;
#pragma unroll
    for (int step = kWarp / 2; step > 0; step /= 2) {
        total += __shfl_xor_sync(kAllLanes, total, step);
    }
    if (lane == 0) {
        out.scaled[group] =
            make_float2(scale.step, __fmul_rn(scale.step, static_cast<float>(total)));
    }
}

}  // namespace strata::cuda
