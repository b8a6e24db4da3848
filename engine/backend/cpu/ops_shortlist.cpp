// CPU ops on a row of logits: penalties, and the shortlist of the row.
//
// The rank of a value is not looked for among all values: a row is parted into groups, and the
// n-th largest of the groups' maxima is a floor that at least n values reach, and few more where
// large values do not lie together.
#include <algorithm>
#include <functional>
#include <limits>

#include "engine/backend/cpu/cpu_ops.hpp"
#include "strata/backend/row_weights.hpp"
#include "strata/core/invariant.hpp"

namespace strata {

namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Enough groups that each of the large values has one for itself, and no more than can be ordered
// in less time than the row is read.
constexpr std::int64_t kGroups = 2048;
constexpr std::int64_t kGroupMin = 8;
constexpr std::int64_t kGroupMax = 64;

constexpr std::int64_t kWeightWork = 24;  // f32 operations

}  // namespace

void CpuOps::penalise(Rows x, const TokenCounts* counts, const Penalties& by) {
    STRATA_INVARIANT(x.rows == 1 && counts->size >= 0 && counts->size <= TokenCounts::kMost);
    for (std::int32_t i = 0; i < counts->size; ++i) {
        const TokenCount& one = counts->each[i];
        STRATA_INVARIANT(one.token >= 0 && one.token < x.cols && one.count > 0);
        x.values[one.token] = penalised(x.values[one.token], one.count, by);
    }
}

void CpuOps::shortlist(Rows x, const ShortlistRule& rule, Shortlist* list, double* weights) {
    STRATA_INVARIANT(x.rows == 1 && x.cols >= 1 &&
                     x.cols <= std::numeric_limits<std::int32_t>::max());
    STRATA_INVARIANT(rule.count >= 0 && rule.count <= Shortlist::kCountMax);
    const std::int64_t size = std::clamp(x.cols / kGroups, kGroupMin, kGroupMax);
    float* maxima = maxima_.floats(x.cols / size + kPadding);
    const std::int64_t groups = kernels_.group_maxima(x.values, x.cols, size, maxima);
    const float largest = groups < 0 ? kInfinity : *std::max_element(maxima, maxima + groups);
    if (!std::isfinite(largest)) {
        list->verdict = Shortlist::faulty;
        return;
    }
    list->largest = largest;
    list_largest(x, rule.count, {maxima, static_cast<std::size_t>(groups)}, *list);
    if (rule.weighs) {
        const auto weigh = [&](std::int64_t begin, std::int64_t end, int) {
            for (std::int64_t block = begin; block < end; ++block) {
                const std::int64_t at = block * kWeightBlock;
                weights[block] = kernels_.weigh_block(
                    x.values + at, std::min(kWeightBlock, x.cols - at), largest, rule.factor);
            }
        };
        for_rows(weight_blocks(x.cols), kWeightWork * kWeightBlock, weigh);
    }
    list->verdict = Shortlist::sound;
}

// Reorders the maxima.
void CpuOps::list_largest(Rows x, std::int64_t wanted, std::span<float> maxima, Shortlist& list) {
    list.count = 0;
    list.least = kInfinity;
    if (wanted == 0) return;
    float floor = -kInfinity;
    if (x.cols > Shortlist::kCandidatesMax) {
        // Of few groups nearly all would be taken, and with them nearly all of the row.
        const auto rank = std::min<std::ptrdiff_t>(wanted, std::ssize(maxima) / 2) - 1;
        std::nth_element(maxima.begin(), maxima.begin() + rank, maxima.end(), std::greater<>());
        floor = maxima[static_cast<std::size_t>(rank)];
    }
    const float lowest = std::max(floor, std::numeric_limits<float>::lowest());
    const std::int64_t count =
        kernels_.gather_from(x.values, x.cols, lowest, Shortlist::kCandidatesMax, list.candidates);
    if (count < 0) return;
    list.count = static_cast<std::int32_t>(count);
    list.least = floor;
}

}  // namespace strata
