// Launches that choose experts (formulas: strata/backend/ops.hpp).
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "strata/backend/ops.hpp"

namespace strata::cuda {

// scores: [rows][experts] logits of the router. Writes routes.experts and routes.weights.
void launch_choose_experts(cudaStream_t stream, const float* scores, std::int64_t rows,
                           std::int64_t experts, const RouteRule& rule, Routes routes);

// The (token, rank) pairs in the order of their experts, for products of one expert's rows at a
// time: places[offsets[e] .. offsets[e + 1]) are the pairs token * used + rank of expert e, in
// ascending order. offsets: [experts + 1]; places: [rows * used].
void launch_group_routes(cudaStream_t stream, Routes routes, std::int64_t rows,
                         std::int64_t experts, std::int32_t* offsets, std::int32_t* places);

}  // namespace strata::cuda
