// The launch of products of quantised weights with some rows of activations: more than a read of
// the weights pays for one by one, fewer than unpacking them to memory pays for.
#pragma once

#include <cstdint>
#include <span>

#include <cuda_runtime.h>

#include "engine/backend/cuda/launch/products.hpp"

namespace strata::cuda {

constexpr std::int64_t kCodeTileTokensMax = 64;
constexpr int kCodeTileRows = 32;  // weight rows of a block

// Parts of one quantised type; x of `tokens` rows, 1 to kCodeTileTokensMax, and `cols` columns as
// codes. sm_80 and newer. A row's result does not depend on how many rows there are, as long as
// they need as many groups of 16.
void launch_code_tiles(cudaStream_t stream, ElementType type, const QuantisedView& x,
                       std::int64_t tokens, std::int64_t cols, std::span<const ProductPart> parts);

}  // namespace strata::cuda
