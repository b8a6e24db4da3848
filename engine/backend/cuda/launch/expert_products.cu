#include "engine/backend/cuda/kernels/expert_products.cuh"
#include "engine/backend/cuda/launch/by_type.cuh"
#include "engine/backend/cuda/launch/expert_products.hpp"
#include "strata/core/invariant.hpp"

namespace strata::cuda {
namespace {

constexpr int kFewStrips = 2;
constexpr int kManyStrips = 4;
static_assert(ExpertShape<kFewStrips>::kRows == kShortTileRows);
static_assert(ExpertShape<kManyStrips>::kRows == kLongTileRows);

// f32 values have no kernel: takes_expert_tiles() refuses them.
template <class Call>
void for_tiled(ElementType type, const Call& call) {
    if (type == ElementType::f16) return call(TypeTag<ElementType::f16>{});
    if (type == ElementType::bf16) return call(TypeTag<ElementType::bf16>{});
    for_quantised(type, call);
}

void run(cudaStream_t stream, ElementType type, const TileCut& cut, ExpertWork work) {
    STRATA_INVARIANT(takes_expert_tiles(type, work.cols, work.rows));
    const std::int64_t blocks = cut.tiles * work.row_tiles;
    STRATA_INVARIANT(cut.tiles >= 1 && blocks <= std::int64_t{1} << 30);
    const auto start = [&](auto shape, auto* kernel) {
        launch(stream, static_cast<unsigned>(blocks), kExpertThreads, decltype(shape)::kSharedBytes,
               kernel, work);
    };
    for_tiled(type, [&](auto tag) {
        if (cut.rows == kShortTileRows) {
            start(ExpertShape<kFewStrips>{}, expert_product_kernel<tag.value, kFewStrips>);
        } else {
            start(ExpertShape<kManyStrips>{}, expert_product_kernel<tag.value, kManyStrips>);
        }
    });
}

ExpertWork work_of(const void* x, std::int64_t cols, const TiledPairs& pairs, std::int64_t rows,
                   int tile_rows) {
    ExpertWork work{};
    work.tiles = pairs.tiles;
    work.places = pairs.places;
    work.x = x;
    work.cols = cols;
    work.used = 1;
    work.rows = static_cast<int>(rows);
    work.row_tiles = static_cast<int>(ceil_div<std::int64_t>(rows, tile_rows));
    return work;
}

}  // namespace

bool takes_expert_tiles(ElementType type, std::int64_t cols, std::int64_t rows) {
    return type != ElementType::f32 && cols % 8 == 0 && rows % 8 == 0;
}

void launch_gated_expert_product(cudaStream_t stream, ElementType type, const void* x,
                                 std::int64_t cols, std::int64_t used, const TiledPairs& pairs,
                                 const RoutedWeight& gate, const RoutedWeight& up,
                                 std::int64_t rows, void* hidden) {
    ExpertWork work = work_of(x, cols, pairs, rows, kWeightTileRows / 2);
    work.used = static_cast<int>(used);
    work.gated = true;
    work.weights[0] = gate;
    work.weights[1] = up;
    work.y = hidden;
    run(stream, type, pairs.cut, work);
}

void launch_expert_product(cudaStream_t stream, ElementType type, const void* x, std::int64_t cols,
                           const TiledPairs& pairs, const RoutedWeight& weight, std::int64_t rows,
                           float* y) {
    ExpertWork work = work_of(x, cols, pairs, rows, kWeightTileRows);
    work.weights[0] = weight;
    work.y = y;
    run(stream, type, pairs.cut, work);
}

}  // namespace strata::cuda
