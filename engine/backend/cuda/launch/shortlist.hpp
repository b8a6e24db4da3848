// The launches on a row of logits: penalties, and the shortlist of the row.
#pragma once

#include <cstdint>

#include <cuda_runtime.h>

#include "strata/backend/ops.hpp"
#include "strata/backend/row_weights.hpp"

namespace strata::cuda {

constexpr int kShortlistThreads = 1024;
// Values that a block looks at in one turn: a block of weights (row_weights.hpp) each warp.
constexpr int kShortlistTurn = kShortlistThreads / 32 * static_cast<int>(kWeightBlock);
// Enough for half a million logits in one turn.
constexpr int kShortlistBlocksMax = 64;
// Maxima that a thread holds when it looks for the rank among all of them.
constexpr int kMaximaPerThread = 16;
constexpr int kMaximaMax = kMaximaPerThread * kShortlistThreads;

struct ShortlistScratch {
    unsigned* maxima = nullptr;    // [kMaximaMax]
    unsigned* counters = nullptr;  // [2]: zero, and left zero by every launch
};

// Ops::penalise(). `counts` is page-locked memory of the host.
void launch_penalise(cudaStream_t stream, Rows x, const TokenCounts* counts, const Penalties& by);

// Ops::shortlist(). `list` and `weights` may be page-locked memory of the host.
void launch_shortlist(cudaStream_t stream, Rows x, const ShortlistRule& rule,
                      const ShortlistScratch& scratch, Shortlist* list, double* weights);

}  // namespace strata::cuda
