#include "engine/backend/cuda/kernels/code_tiles.cuh"
#include "engine/backend/cuda/launch/by_type.cuh"
#include "engine/backend/cuda/launch/code_tiles.hpp"
#include "strata/core/invariant.hpp"

namespace strata::cuda {
namespace {

template <int kTokens>
void launch_tiles(cudaStream_t stream, ElementType type, const CodeTileWork& work) {
    for_quantised(type, [&](auto tag) {
        launch(stream, static_cast<unsigned>(work.first_tile[work.count]), kCodeThreads,
               sizeof(CodePlaces<kTokens>), code_tiles_kernel<tag.value, kTokens>, work);
    });
}

}  // namespace

void launch_code_tiles(cudaStream_t stream, ElementType type, const QuantisedView& x,
                       std::int64_t tokens, std::int64_t cols, std::span<const ProductPart> parts) {
    STRATA_INVARIANT(tokens >= 1 && tokens <= kCodeTileTokensMax && cols % kGroupElements == 0);
    STRATA_INVARIANT(!parts.empty() && parts.size() <= kProductPartsMax);
    CodeTileWork work{};
    work.groups = static_cast<int>(cols / kGroupElements);
    work.tokens = static_cast<int>(tokens);
    work.quantised = x;
    work.count = static_cast<int>(parts.size());
    for (std::size_t i = 0; i < parts.size(); ++i) {
        work.parts[i] = parts[i];
        work.first_tile[i + 1] =
            work.first_tile[i] + ceil_div<std::int64_t>(parts[i].rows, kCodeTileRows);
    }
    if (tokens <= 16) return launch_tiles<16>(stream, type, work);
    if (tokens <= 32) return launch_tiles<32>(stream, type, work);
    launch_tiles<64>(stream, type, work);
}

}  // namespace strata::cuda
