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

// How many warps share a pair, as a power of two: the size with which the busiest of the warps has
// least to do. What a larger team costs beyond its share is taken for a quarter of a stage for each
// pair.
constexpr int kTeamBitsMax = 2;
int team_bits_of(std::int64_t pairs, std::int64_t stages, std::int64_t blocks) {
    int best = 0;
    std::int64_t least = 0;
    for (int bits = 0; bits <= kTeamBitsMax; ++bits) {
        const std::int64_t turns = ceil_div(pairs, blocks * (kRowWarps >> bits));
        const std::int64_t quarters =
            turns * (4 * ceil_div<std::int64_t>(stages, 1 << bits) + (bits > 0 ? 1 : 0));
        if (bits > 0 && quarters >= least) continue;
        best = bits;
        least = quarters;
    }
    return best;
}

// Blocks of `held` that should have the first of two works, so that both end together: each takes
// as long as its busiest warp, which waits for its bytes at every turn. Of shares that are as good
// as each other, the one nearest to what the bytes ask for.
std::int64_t first_share(const RowWork& first, ElementType first_type, const RowWork& second,
                         ElementType second_type, std::int64_t held) {
    // What a turn costs besides its bytes, in bytes that a warp has in that time.
    constexpr std::int64_t kTurnBytes = 2500;
    const auto cost = [](const RowWork& work, ElementType type, std::int64_t blocks) {
        const std::int64_t stages = stages_of(type, work.input.cols);
        const int bits = team_bits_of(work.pairs, stages, blocks);
        const std::int64_t turns = ceil_div<std::int64_t>(work.pairs, blocks * (kRowWarps >> bits));
        return turns *
               (ceil_div<std::int64_t>(stages, 1 << bits) * kWarpRows * tile_layout(type).bytes +
                kTurnBytes);
    };
    const auto bytes = [](const RowWork& work, ElementType type) {
        return std::int64_t{work.pairs} * tile_layout(type).bytes;
    };
    const std::int64_t own = bytes(first, first_type);
    const std::int64_t all = own + bytes(second, second_type);
    const std::int64_t fair = std::clamp<std::int64_t>((held * own + all / 2) / all, 1, held - 1);
    std::int64_t best = fair;
    std::int64_t least = 0;
    for (std::int64_t away = 0; away < held; ++away) {
        for (const std::int64_t share : {fair - away, fair + away}) {
            if (share < 1 || share >= held) continue;
            const std::int64_t longest =
                std::max(cost(first, first_type, share), cost(second, second_type, held - share));
            if (least != 0 && longest >= least) continue;
            best = share;
            least = longest;
        }
    }
    return best;
}

std::int64_t blocks_wanted(const RowWork& work) {
    return ceil_div(std::int64_t{work.pairs} << work.team_bits, std::int64_t{kRowWarps});
}

template <bool kGated>
void run(cudaStream_t stream, int multiprocessors, ElementType type, RowWork work) {
    const bool tiled = whole(type, work.input.cols);
    work.team_bits = 0;
    if (tiled || is_float(type)) {
        work.team_bits =
            team_bits_of(work.pairs, stages_of(type, work.input.cols), multiprocessors);
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
    for (std::size_t i = 0; i < parts.size(); ++i) {
        work.parts[i] = parts[i];
        work.first_pair[i + 1] =
            work.first_pair[i] +
            static_cast<std::int32_t>(ceil_div<std::int64_t>(parts[i].rows, kWarpRows));
    }
    work.pairs = work.first_pair[parts.size()];
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
    return cols <= std::int64_t{8} * kNormEights * kRowThreads;
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
    const std::int64_t held = std::max(multiprocessors, 2);
    const std::int64_t firsts = first_share(one, first_type, other, second_type, held);
    const auto take = [&](RowWork& work, ElementType type, std::int64_t most) {
        work.team_bits = team_bits_of(work.pairs, stages_of(type, input.cols), most);
        return static_cast<int>(std::min(blocks_wanted(work), most));
    };
    const int first_blocks = take(one, first_type, firsts);
    const int blocks = first_blocks + take(other, second_type, held - firsts);
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
    work.parts[0] = gate;
    work.parts[1] = up;
    work.pairs = work.first_pair[1] = static_cast<std::int32_t>(gate.rows);
    run<true>(stream, multiprocessors, type, work);
}

}  // namespace strata::cuda
