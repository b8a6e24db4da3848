// The experts of one token (launch/row_experts.hpp): two launches instead of one for every matrix.
//
//  1. A block of the first launch has the 32 hidden values of a group of one expert: its warps
//     compute two of them at a time, gate and up together, and the group is left as codes.
//  2. A warp of the second has two rows of the result. Its lanes take the groups of all the
//     token's experts in turn, one expert after another, each product with its expert's share.
#pragma once

#include "engine/backend/cuda/kernels/products.cuh"
#include "engine/backend/cuda/launch/row_experts.hpp"

namespace strata::cuda {

constexpr int kHiddenWarps = 8;  // of a block of the first launch; two blocks fill a multiprocessor
constexpr int kHiddenRounds = kGroupElements / (2 * kHiddenWarps);
constexpr int kResultWarps = 4;  // of a block of the second

__device__ __forceinline__ float expert_scale(const RoutedWeight& weight, int expert) {
    return weight.expert_scales == nullptr ? weight.scale : weight.expert_scales[expert];
}
__device__ __forceinline__ std::int64_t expert_row(const RoutedWeight& weight, int expert,
                                                   std::int64_t row) {
    return expert * weight.rows + weight.first_row + row;
}

// Grid: groups of the hidden values, experts of the token.
template <ElementType kType>
__global__ void __launch_bounds__(kHiddenWarps* kWarp, 2)
    row_hidden_kernel(const __grid_constant__ RowHidden work) {
    __shared__ float values[kGroupElements];
    let_next_start();
    const std::uint32_t* grid = shared_grid<kType>();
    wait_for_previous();
    const int expert = work.experts[blockIdx.y];
    const int lane = threadIdx.x % kWarp;
    const int warp = threadIdx.x / kWarp;
    const auto groups = static_cast<std::uint32_t>(work.cols / kGroupElements);
    const Planes planes[kWarpRows] = {work.gate.planes, work.up.planes};
    const GlobalCodes codes{work.x.codes, work.x.scaled};
    const std::uint32_t x_rows[1] = {0};
    const float gate_scale = expert_scale(work.gate, expert);
    const float up_scale = expert_scale(work.up, expert);
    for (int round = 0; round < kHiddenRounds; ++round) {
        const int value = (round * kHiddenWarps + warp) * 2;
        QuantisedRowsProduct<kType, 1> products[2];
        std::uint32_t start[2][kWarpRows];
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            const std::int64_t row = blockIdx.x * kGroupElements + value + i;
            start[i][0] = static_cast<std::uint32_t>(expert_row(work.gate, expert, row)) * groups;
            start[i][1] = static_cast<std::uint32_t>(expert_row(work.up, expert, row)) * groups;
            products[i].load(planes, start[i], lane, groups);
        }
#pragma unroll
        for (int i = 0; i < 2; ++i) {
            float sum[kWarpRows][1] = {};
            products[i].run(planes, start[i], codes, x_rows, groups, grid, true, sum);
            const float gate = __fmul_rn(warp_sum(sum[0][0]), gate_scale);
            const float up = __fmul_rn(warp_sum(sum[1][0]), up_scale);
            if (lane == 0) values[value + i] = __fmul_rn(silu(gate), up);
        }
    }
    __syncthreads();
    if (warp != 0) return;
    const std::int64_t group = static_cast<std::int64_t>(blockIdx.y) * gridDim.x + blockIdx.x;
    quantise_group(values[lane], group, work.hidden);
}

// Grid: row pairs of the result, kResultWarps a block.
template <ElementType kType>
__global__ void __launch_bounds__(kResultWarps* kWarp)
    row_result_kernel(const __grid_constant__ RowResult work) {
    constexpr int kTurn = kDepth<kType, 1>;
    let_next_start();
    const std::uint32_t* grid = shared_grid<kType>();
    const int lane = threadIdx.x % kWarp;
    const std::int64_t first =
        (static_cast<std::int64_t>(blockIdx.x) * kResultWarps + threadIdx.x / kWarp) * kWarpRows;
    wait_for_previous();
    if (first >= work.rows) return;
    const bool both = first + 1 < work.rows;
    const auto groups = static_cast<int>(work.cols / kGroupElements);
    const int total = work.used * groups;
    const GlobalCodes codes{work.hidden.codes, work.hidden.scaled};
    float sum[kWarpRows] = {};
    for (int base = lane; base < total; base += kTurn * kWarp) {
        RawGroup<kType> raw[kWarpRows][kTurn];
        float share[kTurn];
#pragma unroll
        for (int u = 0; u < kTurn; ++u) {
            const int at = base + u * kWarp;
            if (at >= total) break;
            const int rank = at / groups;
            const int expert = work.experts[rank];
            share[u] = __fmul_rn(work.weights[rank], expert_scale(work.down, expert));
#pragma unroll
            for (int r = 0; r < kWarpRows; ++r) {
                const std::int64_t row = expert_row(work.down, expert, first + (both ? r : 0));
                raw[r][u].load(work.down.planes,
                               static_cast<std::uint32_t>(row * groups + at % groups));
            }
        }
#pragma unroll
        for (int u = 0; u < kTurn; ++u) {
            const int at = base + u * kWarp;
            if (at >= total) break;
            int4 x0;
            int4 x1;
            float2 scaled;
            codes.load(static_cast<std::uint32_t>(at), x0, x1, scaled);
#pragma unroll
            for (int r = 0; r < kWarpRows; ++r) {
                const float product = add_raw_product<kType>(0.0F, raw[r][u], x0, x1, scaled, grid);
                sum[r] = __fmaf_rn(share[u], product, sum[r]);
            }
        }
    }
#pragma unroll
    for (int r = 0; r < kWarpRows; ++r) sum[r] = warp_sum(sum[r]);
    if (lane < kWarpRows && (lane == 0 || both)) work.y[first + lane] += sum[lane == 0 ? 0 : 1];
}

}  // namespace strata::cuda
