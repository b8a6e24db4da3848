// CPU ops of mixtures of experts: the router, and the feed-forward of the chosen experts.
//
// Hidden rows and results lie in the order row * used + rank: where a row's k-th expert writes does
// not depend on the others, and the weighted sum always runs from the best expert to the last.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "engine/backend/cpu/cpu_ops.hpp"
#include "strata/core/invariant.hpp"

namespace strata {
namespace {

constexpr float kWeightSumMin =
    6.1035e-5F;  // the smallest normal f16, as the formats' origin clamps
// Rough costs of one element, in f32 operations: what a piece of work is measured with.
constexpr std::int64_t kChoiceWork = 8;
constexpr std::int64_t kGateWork = 24;

const PackedWeight& packed(const Weight& weight) {
    return static_cast<const PackedWeight&>(weight);
}

// Softmax over `scores` in place.
void soften(std::span<float> scores) {
    const float top = *std::max_element(scores.begin(), scores.end());
    float total = 0.0F;
    for (float& score : scores) {
        score = std::exp(score - top);
        total += score;
    }
    for (float& score : scores) score /= total;
}

// The indices and values of the `chosen.size()` largest probabilities, the lower index first where
// two are equal. Takes them out of `probabilities`.
void choose(std::span<float> probabilities, std::span<std::int32_t> chosen, float* weights) {
    constexpr float kTaken = -1.0F;
    for (std::size_t k = 0; k < chosen.size(); ++k) {
        const auto best = std::max_element(probabilities.begin(), probabilities.end());
        chosen[k] = static_cast<std::int32_t>(best - probabilities.begin());
        weights[k] = *best;
        *best = kTaken;
    }
}

void weigh(const RouteRule& rule, std::span<float> weights) {
    const float total = std::accumulate(weights.begin(), weights.end(), 0.0F);
    const float divisor = rule.normalise ? std::max(total, kWeightSumMin) : 1.0F;
    for (float& weight : weights) weight = weight / divisor * rule.scale;
}

}  // namespace

void CpuOps::moe_route(Rows x, const Weight& router, const RouteRule& rule, Routes routes) {
    STRATA_INVARIANT(routes.used >= 1 && routes.used <= router.rows);
    const Rows scores{router_scores_.floats(x.rows * router.rows), x.rows, router.rows};
    products_.assign({{&packed(router), 0, scores, false, nullptr}});
    matmul(pool_, matmul_scratch_, x, products_);
    const std::size_t count = static_cast<std::size_t>(router.rows);
    const std::size_t used = static_cast<std::size_t>(routes.used);
    for_rows(x.rows, kChoiceWork * router.rows * routes.used,
             [&](std::int64_t begin, std::int64_t end, int) {
                 for (std::int64_t t = begin; t < end; ++t) {
                     const std::span<float> row(scores.values + t * router.rows, count);
                     const std::span<std::int32_t> chosen(routes.experts + t * routes.used, used);
                     float* weights = routes.weights + t * routes.used;
                     soften(row);
                     choose(row, chosen, weights);
                     weigh(rule, {weights, used});
                 }
             });
}

// Counting sort of the (row, rank) pairs by expert.
void CpuOps::group_routes(Routes routes, std::int64_t rows, std::int64_t experts) {
    const std::size_t pairs = static_cast<std::size_t>(rows * routes.used);
    route_rows_.resize(pairs);
    route_places_.resize(pairs);
    std::vector<std::size_t> start(static_cast<std::size_t>(experts) + 1, 0);
    for (std::size_t i = 0; i < pairs; ++i) {
        STRATA_INVARIANT(routes.experts[i] >= 0 && routes.experts[i] < experts);
        ++start[static_cast<std::size_t>(routes.experts[i]) + 1];
    }
    std::partial_sum(start.begin(), start.end(), start.begin());
    std::vector<std::size_t> next(start.begin(), start.end() - 1);
    for (std::size_t i = 0; i < pairs; ++i) {
        const std::size_t place = next[static_cast<std::size_t>(routes.experts[i])]++;
        route_rows_[place] = static_cast<std::int32_t>(i / static_cast<std::size_t>(routes.used));
        route_places_[place] = static_cast<std::int32_t>(i);
    }
    expert_rows_.clear();
    expert_places_.clear();
    for (std::size_t e = 0; e + 1 < start.size(); ++e) {
        const std::size_t count = start[e + 1] - start[e];
        if (count == 0) continue;
        const std::span<const std::int32_t> places(route_places_.data() + start[e], count);
        expert_rows_.push_back(
            {static_cast<std::int64_t>(e), {route_rows_.data() + start[e], count}, places});
        expert_places_.push_back({static_cast<std::int64_t>(e), places, places});
    }
}

// silu(gate x) * (up x) of every chosen expert: [rows * used][hidden].
float* CpuOps::expert_hidden(Rows x, const Experts& experts, Routes routes) {
    const std::int64_t pairs = x.rows * routes.used;
    const std::int64_t f = experts.hidden;
    Rows gate{up_.floats(2 * pairs * f), pairs, f};
    if (experts.gate_up != nullptr) {
        const Rows both{gate.values, pairs, 2 * f};
        const ExpertProduct product{&packed(*experts.gate_up), both};
        matmul_experts(pool_, matmul_scratch_, x, expert_rows_, {&product, 1});
        for_rows(pairs, kGateWork * f, [&](std::int64_t begin, std::int64_t end, int) {
            for (std::int64_t i = begin; i < end; ++i) {
                float* row = both.values + 2 * f * i;
                kernels_.swiglu(row, row + f, f);
            }
        });
        for (std::int64_t i = 1; i < pairs; ++i) {
            std::copy_n(both.values + 2 * f * i, f, gate.values + f * i);
        }
        return gate.values;
    }
    const Rows up{gate.values + pairs * f, pairs, f};
    const ExpertProduct products[] = {{&packed(*experts.gate), gate}, {&packed(*experts.up), up}};
    matmul_experts(pool_, matmul_scratch_, x, expert_rows_, products);
    swiglu_rows(gate, up.values, f);
    return gate.values;
}

void CpuOps::add_shared_expert(Rows x, const SharedExpert& shared, Rows y) {
    const Rows hidden{shared_hidden_.floats(x.rows * shared.gate->rows), x.rows, shared.gate->rows};
    gated_linear(x, *shared.gate, *shared.up, hidden);
    const Rows result{shared_results_.floats(x.rows * y.cols), x.rows, y.cols};
    products_.assign({{&packed(*shared.down), 0, result, false, nullptr}});
    matmul(pool_, matmul_scratch_, hidden, products_);
    for_rows(x.rows, 4 * x.cols, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t t = begin; t < end; ++t) {
            float share = 1.0F;
            if (shared.gate_input != nullptr) {
                const float score = kernels_.dot(x.values + t * x.cols, shared.gate_input, x.cols);
                share = 1.0F / (1.0F + std::exp(-score));
            }
            kernels_.add_scaled(result.values + t * y.cols, share, y.cols, y.values + t * y.cols);
        }
    });
}

void CpuOps::moe_ffn(Rows x, const Experts& experts, const SharedExpert* shared, Routes routes,
                     Rows y) {
    STRATA_INVARIANT(y.rows == x.rows && y.cols == experts.down->rows);
    group_routes(routes, x.rows, experts.down->experts);
    const Rows hidden{expert_hidden(x, experts, routes), x.rows * routes.used, experts.hidden};
    const Rows results{expert_results_.floats(hidden.rows * y.cols), hidden.rows, y.cols};
    const ExpertProduct down{&packed(*experts.down), results};
    matmul_experts(pool_, matmul_scratch_, hidden, expert_places_, {&down, 1});
    for_rows(y.rows, 2 * routes.used * y.cols, [&](std::int64_t begin, std::int64_t end, int) {
        for (std::int64_t i = begin * routes.used; i < end * routes.used; ++i) {
            kernels_.add_scaled(results.values + i * y.cols, routes.weights[i], y.cols,
                                y.values + i / routes.used * y.cols);
        }
    });
    if (shared != nullptr) add_shared_expert(x, *shared, y);
}

}  // namespace strata
