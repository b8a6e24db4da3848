#include "engine/backend/cuda/kernels/row_experts.cuh"
#include "engine/backend/cuda/launch/by_type.cuh"
#include "engine/backend/cuda/launch/row_experts.hpp"
#include "strata/core/invariant.hpp"

namespace strata::cuda {

bool takes_row_experts(ElementType gate, ElementType up, ElementType down, std::int64_t cols,
                       std::int64_t hidden) {
    return gate == up && !is_float(gate) && !is_float(down) && cols % kGroupElements == 0 &&
           hidden % kGroupElements == 0;
}

void launch_row_hidden(cudaStream_t stream, ElementType type, const RowHidden& work,
                       std::int64_t used, std::int64_t width) {
    STRATA_INVARIANT(width % kGroupElements == 0 && used >= 1);
    const dim3 grid(static_cast<unsigned>(width / kGroupElements), static_cast<unsigned>(used));
    for_quantised(type, [&](auto tag) {
        launch(stream, grid, dim3(kHiddenWarps * kWarp), 0, row_hidden_kernel<tag.value>, work);
    });
}

void launch_row_result(cudaStream_t stream, ElementType type, const RowResult& work) {
    STRATA_INVARIANT(work.cols % kGroupElements == 0 && work.used >= 1);
    const std::int64_t pairs = ceil_div<std::int64_t>(work.rows, kWarpRows);
    const dim3 grid(static_cast<unsigned>(ceil_div<std::int64_t>(pairs, kResultWarps)));
    for_quantised(type, [&](auto tag) {
        launch(stream, grid, dim3(kResultWarps * kWarp), 0, row_result_kernel<tag.value>, work);
    });
}

}  // namespace strata::cuda
