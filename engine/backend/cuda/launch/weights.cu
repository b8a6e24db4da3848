#include <algorithm>

#include "engine/backend/cuda/kernels/pack_groups.cuh"
#include "engine/backend/cuda/kernels/unpack_groups.cuh"
#include "engine/backend/cuda/launch/by_type.cuh"
#include "engine/backend/cuda/launch/weights.hpp"
#include "strata/core/invariant.hpp"

namespace strata::cuda {
namespace {

constexpr int kThreads = 128;
constexpr unsigned kConvertBlocksMax = 2048;

unsigned blocks_of(std::int64_t count) {
    return static_cast<unsigned>(ceil_div<std::int64_t>(count, kThreads));
}

template <class Out>
void unpack(cudaStream_t stream, ElementType type, const Planes& planes, std::int64_t first,
            std::int64_t count, Out* out) {
    if (is_float(type)) {
        const unsigned blocks = std::min(blocks_of(count), kConvertBlocksMax);
        for_float(type, [&](auto tag) {
            launch(stream, blocks, kThreads, 0, convert_kernel<tag.value, Out>, planes.codes, first,
                   count, out);
        });
        return;
    }
    for_quantised(type, [&](auto tag) {
        launch(stream, blocks_of(count / kGroupElements), kThreads, 0,
               unpack_kernel<tag.value, Out>, planes, first / kGroupElements,
               count / kGroupElements, out);
    });
}

}  // namespace

void launch_pack(cudaStream_t stream, ElementType type, const void* stored, std::int64_t first,
                 std::int64_t count, const Planes& planes) {
    for_quantised(type, [&](auto tag) {
        launch(stream, blocks_of(count), kThreads, 0, pack_kernel<tag.value>,
               static_cast<const std::uint8_t*>(stored), first, count, planes);
    });
}

void launch_decode(cudaStream_t stream, ElementType type, const Planes& planes, std::int64_t count,
                   float* out) {
    unpack(stream, type, planes, 0, count, out);
}

void launch_embed(cudaStream_t stream, const StepView& step, ElementType type, const Planes& planes,
                  float scale, Rows x) {
    STRATA_INVARIANT(is_float(type) ||
                     reinterpret_cast<std::uintptr_t>(x.values) % sizeof(float4) == 0);
    const auto run = [&](auto tag) {
        launch(stream, static_cast<unsigned>(x.rows), kThreads, 0, embed_kernel<tag.value>, step,
               planes, scale, x.values, x.cols);
    };
    if (is_float(type)) return for_float(type, run);
    for_quantised(type, run);
}

void launch_unpack_rows(cudaStream_t stream, ElementType type, const Planes& planes,
                        std::int64_t cols, std::int64_t first, std::int64_t rows, void* bf16) {
    unpack(stream, type, planes, first * cols, rows * cols, static_cast<__nv_bfloat16*>(bf16));
}

}  // namespace strata::cuda
