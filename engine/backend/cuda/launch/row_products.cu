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

RowWork work_of(const RowInput& input, std::span<const ProductPart> parts) {
    STRATA_INVARIANT(!parts.empty() && parts.size() <= kProductPartsMax);
    RowWork work{};
    work.input = input;
    work.count = static_cast<int>(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
        work.parts[i] = parts[i];
        work.first_pair[i + 1] =
            work.first_pair[i] + ceil_div<std::int64_t>(parts[i].rows, kWarpRows);
    }
    return work;
}

// Calls call(tag of the first type, tag of the second) for the mixes that files have.
template <class Call>
bool for_two_types(ElementType first, ElementType second, const Call& call) {
    using Q4 = TypeTag<ElementType::q4_k>;
    using Q5 = TypeTag<ElementType::q5_k>;
    using Q6 = TypeTag<ElementType::q6_k>;
    if (second != ElementType::q6_k) return false;
    if (first == ElementType::q4_k) {
        call(Q4{}, Q6{});
    } else if (first == ElementType::q5_k) {
        call(Q5{}, Q6{});
    } else {
        return false;
    }
    return true;
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
    run<false>(stream, multiprocessors, type, work_of(input, parts));
}

bool takes_row_of(ElementType first, ElementType second) {
    return for_two_types(first, second, [](auto, auto) {});
}

void launch_row_products_of(cudaStream_t stream, int multiprocessors, const RowInput& input,
                            ElementType first_type, std::span<const ProductPart> first,
                            ElementType second_type, std::span<const ProductPart> second) {
    STRATA_INVARIANT(takes_row(first_type, input.cols) && takes_row(second_type, input.cols));
    const RowWork one = work_of(input, first);
    const RowWork other = work_of(input, second);
    const auto blocks = [](const RowWork& work) {
        return static_cast<int>(ceil_div<std::int64_t>(work.first_pair[work.count], kRowWarps));
    };
    const int wanted = blocks(one) + blocks(other);
    const int most = std::min(wanted, multiprocessors * kRowBlocksHeld);
    const int firsts = std::clamp(most * blocks(one) / wanted, 1, most - 1);
    for_two_types(first_type, second_type, [&](auto a, auto b) {
        launch(stream, dim3(static_cast<unsigned>(most)), dim3(kRowThreads),
               shared_bytes(first_type, input.cols), two_types_row_kernel<a.value, b.value>, one,
               other, firsts);
    });
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
