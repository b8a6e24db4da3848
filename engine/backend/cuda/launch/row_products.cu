#include <algorithm>

#include "engine/backend/cuda/kernels/row_products.cuh"
#include "engine/backend/cuda/launch/by_type.cuh"
#include "engine/backend/cuda/launch/row_products.hpp"
#include "strata/core/invariant.hpp"

namespace strata::cuda {
namespace {

// What a block may have without taking others' place on the chip.
constexpr std::size_t kSharedBytesMax = 64 << 10;

std::size_t shared_bytes(ElementType type, std::int64_t cols) {
    const auto count = static_cast<std::size_t>(cols);
    if (is_float(type)) return count * sizeof(float);
    return count + count / kGroupElements * sizeof(float2);
}

template <bool kGated>
void run(cudaStream_t stream, int multiprocessors, ElementType type, const RowWork& work) {
    const std::int64_t total = work.first_pair[work.count];
    const std::int64_t most = std::int64_t{multiprocessors} * kRowBlocksHeld;
    const auto blocks =
        static_cast<unsigned>(std::min(ceil_div<std::int64_t>(total, kRowWarps), most));
    const std::size_t bytes = shared_bytes(type, work.input.cols);
    if (is_float(type)) {
        for_float(type, [&](auto tag) {
            launch(stream, blocks, kRowThreads, bytes, float_row_kernel<tag.value, kGated>, work);
        });
        return;
    }
    for_quantised(type, [&](auto tag) {
        launch(stream, blocks, kRowThreads, bytes, quantised_row_kernel<tag.value, kGated>, work);
    });
}

}  // namespace

bool takes_row(ElementType type, std::int64_t cols) {
    return cols % kGroupElements == 0 && shared_bytes(type, cols) <= kSharedBytesMax;
}

bool takes_normed_row(std::int64_t cols) {
    return cols <= std::int64_t{4} * kNormFours * kRowThreads;
}

void launch_row_products(cudaStream_t stream, int multiprocessors, ElementType type,
                         const RowInput& input, std::span<const ProductPart> parts) {
    STRATA_INVARIANT(takes_row(type, input.cols));
    STRATA_INVARIANT(!parts.empty() && parts.size() <= kProductPartsMax);
    RowWork work{};
    work.input = input;
    work.count = static_cast<int>(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
        work.parts[i] = parts[i];
        work.first_pair[i + 1] =
            work.first_pair[i] + ceil_div<std::int64_t>(parts[i].rows, kWarpRows);
    }
    run<false>(stream, multiprocessors, type, work);
}

void launch_gated_row_product(cudaStream_t stream, int multiprocessors, ElementType type,
                              const RowInput& input, const ProductPart& gate,
                              const ProductPart& up) {
    STRATA_INVARIANT(takes_row(type, input.cols));
    RowWork work{};
    work.input = input;
    work.count = 1;
    work.parts[0] = gate;
    work.parts[1] = up;
    work.first_pair[1] = gate.rows;
    run<true>(stream, multiprocessors, type, work);
}

}  // namespace strata::cuda
