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

// Lanes of a warp take so many elements of a row at a time.
std::int64_t stages_of(ElementType type, std::int64_t cols) {
    constexpr std::int64_t kFloatElements = 8;
    return ceil_div(cols, kWarp * (is_float(type) ? kFloatElements : std::int64_t{kGroupElements}));
}

// Rows of a quantised weight that are whole tiles.
bool whole(ElementType type, std::int64_t cols) {
    return !is_float(type) && cols % (std::int64_t{kGroupElements} * kTileGroups) == 0;
}

// How many warps share a pair: the size with which the busiest of the warps has least to do. What a
// larger team costs beyond its share is taken for a quarter of a stage for each pair.
int team_of(std::int64_t pairs, std::int64_t stages, std::int64_t blocks) {
    int best = 1;
    std::int64_t least = 0;
    for (const int size : {1, 2, 4}) {
        const std::int64_t turns = ceil_div(pairs, blocks * (kRowWarps / size));
        const std::int64_t quarters =
            turns * (4 * ceil_div<std::int64_t>(stages, size) + (size > 1 ? 1 : 0));
        if (size > 1 && quarters >= least) continue;
        best = size;
        least = quarters;
    }
    return best;
}

std::int64_t blocks_wanted(const RowWork& work) {
    return ceil_div<std::int64_t>(work.first_pair[work.count] * work.team, kRowWarps);
}

template <bool kGated>
void run(cudaStream_t stream, int multiprocessors, ElementType type, RowWork work) {
    const bool tiled = whole(type, work.input.cols);
    work.team = 1;
    if (tiled || is_float(type)) {
        work.team =
            team_of(work.first_pair[work.count], stages_of(type, work.input.cols), multiprocessors);
    }
    const auto blocks =
        static_cast<unsigned>(std::min<std::int64_t>(blocks_wanted(work), multiprocessors));
    const std::size_t bytes = shared_bytes(type, work.input.cols);
    if (is_float(type)) {
        for_float(type, [&](auto tag) {
            launch(stream, blocks, kRowThreads, bytes, float_row_kernel<tag.value, kGated>, work);
        });
        return;
    }
    for_quantised(type, [&](auto tag) {
        launch(stream, blocks, kRowThreads, bytes,
               tiled ? quantised_row_kernel<tag.value, kGated, true>
                     : quantised_row_kernel<tag.value, kGated, false>,
               work);
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

bool takes_row_of(ElementType first, ElementType second, std::int64_t cols) {
    return whole(first, cols) && for_two_types(first, second, [](auto, auto) {});
}

void launch_row_products_of(cudaStream_t stream, int multiprocessors, const RowInput& input,
                            ElementType first_type, std::span<const ProductPart> first,
                            ElementType second_type, std::span<const ProductPart> second) {
    STRATA_INVARIANT(takes_row(first_type, input.cols) && takes_row(second_type, input.cols));
    STRATA_INVARIANT(takes_row_of(first_type, second_type, input.cols));
    RowWork one = work_of(input, first);
    RowWork other = work_of(input, second);
    // Each has the blocks that its bytes ask for.
    const auto bytes_of = [](const RowWork& work, ElementType type) {
        return work.first_pair[work.count] * tile_layout(type).bytes;
    };
    const std::int64_t own = bytes_of(one, first_type);
    const std::int64_t all = own + bytes_of(other, second_type);
    const std::int64_t held = std::max(multiprocessors, 2);
    const std::int64_t firsts = std::clamp<std::int64_t>((held * own + all / 2) / all, 1, held - 1);
    const auto share = [&](RowWork& work, ElementType type, std::int64_t most) {
        work.team = team_of(work.first_pair[work.count], stages_of(type, input.cols), most);
        return static_cast<int>(std::min(blocks_wanted(work), most));
    };
    const int first_blocks = share(one, first_type, firsts);
    const int blocks = first_blocks + share(other, second_type, held - firsts);
    for_two_types(first_type, second_type, [&](auto a, auto b) {
        launch(stream, dim3(static_cast<unsigned>(blocks)), dim3(kRowThreads),
               shared_bytes(first_type, input.cols), two_types_row_kernel<a.value, b.value>, one,
               other, first_blocks);
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
