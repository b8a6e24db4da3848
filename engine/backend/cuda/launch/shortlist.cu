#include <algorithm>
#include <limits>

#include "engine/backend/cuda/kernels/shortlist.cuh"
#include "engine/backend/cuda/launch/launch.cuh"
#include "engine/backend/cuda/launch/shortlist.hpp"
#include "strata/core/invariant.hpp"

namespace strata::cuda {
namespace {

// Rows up to here have a maximum for each 8 values, longer ones for each 32: a thousand maxima or
// more from 8,192 logits on, so that the rank asked for is far from their number.
constexpr std::int64_t kFineRow = 65'536;
constexpr int kCoarseGroup = 4;  // lanes
static_assert(kFineRow / kShortlistTurn * kShortlistThreads <= kMaximaMax);
static_assert(kShortlistBlocksMax * kShortlistThreads / kCoarseGroup <= kMaximaMax);

}  // namespace

void launch_penalise(cudaStream_t stream, Rows x, const TokenCounts* counts, const Penalties& by) {
    STRATA_INVARIANT(x.rows == 1);
    launch(stream, 1, kPenaltyThreads, 0, penalise_kernel, x.values, counts, by);
}

void launch_shortlist(cudaStream_t stream, Rows x, const ShortlistRule& rule,
                      const ShortlistScratch& scratch, Shortlist* list, double* weights) {
    STRATA_INVARIANT(x.rows == 1 && x.cols >= 1 &&
                     x.cols <= std::numeric_limits<std::int32_t>::max());
    STRATA_INVARIANT(rule.count >= 0 && rule.count <= Shortlist::kCountMax);
    const auto blocks = static_cast<unsigned>(std::clamp<std::int64_t>(
        ceil_div<std::int64_t>(x.cols, kShortlistTurn), 1, kShortlistBlocksMax));
    const int group = x.cols <= kFineRow ? 1 : kCoarseGroup;
    const int maxima = static_cast<int>(blocks) * kShortlistThreads / group;
    const auto count = static_cast<int>(x.cols);
    // A row that fits is listed whole. Of few groups nearly all would be taken, and with them
    // nearly all of a row that does not.
    const auto groups =
        static_cast<int>(std::min<std::int64_t>(maxima, x.cols / (kBlockLoads * group)));
    const int rank =
        count <= Shortlist::kCandidatesMax ? rule.count : std::min(rule.count, groups / 2);
    launch(stream, blocks, kShortlistThreads, 0, maxima_kernel, x.values, count, group,
           scratch.maxima);
    launch(stream, blocks, kShortlistThreads, 0, shortlist_kernel, x.values, count, maxima, rank,
           scratch, rule, list, weights);
}

}  // namespace strata::cuda
