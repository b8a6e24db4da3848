#include <algorithm>

#include "engine/backend/cuda/kernels/products.cuh"
#include "engine/backend/cuda/launch/by_type.cuh"
#include "engine/backend/cuda/launch/products.hpp"
#include "strata/core/invariant.hpp"

namespace strata::cuda {
namespace {

constexpr int kThreads = kProductWarps * kWarp;

unsigned blocks_of(std::int64_t warps) {
    return static_cast<unsigned>(ceil_div<std::int64_t>(warps, kProductWarps));
}

template <class Call>
void for_type(ElementType type, const Call& call) {
    if (is_float(type)) return for_float(type, call);
    for_quantised(type, call);
}

ProductWork work_of(const ProductInput& input) {
    ProductWork work{};
    work.cols = input.x.cols;
    work.tokens = static_cast<int>(input.x.rows);
    work.x = input.x.values;
    work.quantised = input.quantised;
    return work;
}

// Grid dimension y holds at most 65,535.
constexpr std::int64_t kTilesMax = 65'535;

__global__ void quantise_kernel(const float* x, std::int64_t groups, QuantisedView out) {
    let_next_start();
    wait_for_previous();
    const std::int64_t group =
        static_cast<std::int64_t>(blockIdx.x) * kProductWarps + threadIdx.x / kWarp;
    if (group >= groups) return;
    quantise_group(x[group * kGroupElements + threadIdx.x % kWarp], group, out);
}

}  // namespace

void launch_products(cudaStream_t stream, ElementType type, const ProductInput& input,
                     std::span<const ProductPart> parts) {
    STRATA_INVARIANT(input.x.rows >= 1 && input.x.rows <= kProductRowsMax);
    STRATA_INVARIANT(!parts.empty() && parts.size() <= kProductPartsMax);
    ProductWork work = work_of(input);
    work.count = static_cast<int>(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
        work.parts[i] = parts[i];
        work.first_pair[i + 1] =
            work.first_pair[i] + ceil_div<std::int64_t>(parts[i].rows, kWarpRows);
    }
    const unsigned blocks = blocks_of(work.first_pair[work.count]);
    for_type(type, [&](auto tag) {
        constexpr auto kMany = static_cast<int>(kProductRowsMax);
        auto* kernel =
            work.tokens == 1 ? product_kernel<tag.value, 1> : product_kernel<tag.value, kMany>;
        launch(stream, blocks, kThreads, 0, kernel, work);
    });
}

void launch_routed_product(cudaStream_t stream, ElementType type, const ProductInput& input,
                           const RoutedRows& routed, const RoutedWeight& weight, std::int64_t rows,
                           float* y) {
    const RoutedWork work{routed, weight, rows, input.x.cols, input.x.values, input.quantised, y};
    const bool grouped = routed.places != nullptr;
    const std::int64_t tiles =
        grouped ? std::min(routed.pairs, routed.pairs / kProductRowsMax + routed.expert_count)
                : routed.pairs;
    STRATA_INVARIANT(tiles >= 1 && tiles <= kTilesMax);
    const dim3 grid(blocks_of(ceil_div<std::int64_t>(rows, kWarpRows)),
                    static_cast<unsigned>(tiles));
    for_type(type, [&](auto tag) {
        constexpr auto kMany = static_cast<int>(kProductRowsMax);
        auto* kernel =
            grouped ? routed_product_kernel<tag.value, kMany> : routed_product_kernel<tag.value, 1>;
        launch(stream, grid, kThreads, 0, kernel, work);
    });
}

void launch_quantise(cudaStream_t stream, Rows x, const QuantisedView& out) {
    const std::int64_t groups = x.rows * x.cols / kGroupElements;
    launch(stream, blocks_of(groups), kThreads, 0, quantise_kernel, x.values, groups, out);
}

}  // namespace strata::cuda
