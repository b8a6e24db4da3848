// Mixtures of experts: the router's choice, the chosen experts' parts, and their sum.
#include <array>

#include "engine/backend/cuda/cuda_ops.hpp"
#include "engine/backend/cuda/launch/routing.hpp"

namespace strata::cuda {
namespace {

enum Call : std::uint64_t {
    kChoose = 1000,  // apart from those of cuda_ops.cpp
    kGroup,
    kRoutedProduct,
    kAddMixture,
};

CallKey& operator<<(CallKey& key, Rows rows) {
    return key << rows.values << rows.rows << rows.cols;
}

}  // namespace

void CudaOps::moe_route(Rows x, const Weight& router, const RouteRule& rule, Routes routes) {
    const Rows scores{floats(ScratchUse::scores, x.rows * router.rows), x.rows, router.rows};
    const Projection of{&router, nullptr, scores, false};
    linear(x, {&of, 1});
    CallKey key(kChoose);
    key << scores << rule.normalise << rule.scale << routes.experts << routes.weights
        << routes.used;
    recorder_.run(key, [=, this] {
        launch_choose_experts(stream_, scores.values, scores.rows, scores.cols, rule, routes);
    });
}

CudaOps::Grouped CudaOps::group_routes(Routes routes, std::int64_t rows, std::int64_t experts) {
    auto* offsets = static_cast<std::int32_t*>(scratch_.take(
        ScratchUse::offsets, static_cast<std::size_t>(experts + 1) * sizeof(std::int32_t)));
    auto* places = static_cast<std::int32_t*>(scratch_.take(
        ScratchUse::places, static_cast<std::size_t>(rows * routes.used) * sizeof(std::int32_t)));
    CallKey key(kGroup);
    key << routes.experts << routes.used << rows << experts << offsets << places;
    recorder_.run(
        key, [=, this] { launch_group_routes(stream_, routes, rows, experts, offsets, places); });
    return {offsets, places};
}

void CudaOps::routed_product(Rows x, const RoutedRows& routed, const Weight& weight,
                             std::int64_t first_row, std::int64_t rows, float* y) {
    ProductInput input{x, {}};
    if (!is_float(weight.type)) input.quantised = codes_of(x);
    const RoutedWeight of{on_device(weight).planes, weight.rows, first_row,
                          on_device(weight).device_expert_scales(stream_), weight.scale};
    const ElementType type = weight.type;
    CallKey key(kRoutedProduct);
    key << x << input.quantised.codes << routed.experts << routed.offsets << routed.places
        << routed.pairs << routed.x_rows_per << &weight << first_row << rows << y;
    recorder_.run(key,
                  [=, this] { launch_routed_product(stream_, type, input, routed, of, rows, y); });
}

// silu(gate x) * (up x) of each pair's expert: [pairs][hidden].
Rows CudaOps::expert_hidden(Rows x, const Experts& experts, const RoutedRows& routed) {
    const std::int64_t f = experts.hidden;
    const Rows hidden{floats(ScratchUse::hidden, routed.pairs * f), routed.pairs, f};
    float* up = floats(ScratchUse::up, routed.pairs * f);
    if (experts.gate_up != nullptr) {
        routed_product(x, routed, *experts.gate_up, 0, f, hidden.values);
        routed_product(x, routed, *experts.gate_up, f, f, up);
    } else {
        routed_product(x, routed, *experts.gate, 0, f, hidden.values);
        routed_product(x, routed, *experts.up, 0, f, up);
    }
    gate_rows(hidden, up);
    return hidden;
}

void CudaOps::moe_ffn(Rows x, const Experts& experts, const SharedExpert* shared, Routes routes,
                      Rows y) {
    read(x);
    read(y);
    MixtureSum sum;
    sum.weights = routes.weights;
    sum.used = routes.used;
    if (shared != nullptr) {
        const std::int64_t width = shared->gate->rows;
        const Rows hidden{floats(ScratchUse::shared_hidden, x.rows * width), x.rows, width};
        const Rows results{floats(ScratchUse::shared_results, x.rows * y.cols), x.rows, y.cols};
        gated_linear(x, *shared->gate, *shared->up, hidden);
        const Projection down{shared->down, nullptr, results, false};
        linear(hidden, {&down, 1});
        sum.shared = results.values;
        sum.shared_input = x.values;
        sum.shared_gain = shared->gate_input;
        sum.shared_cols = x.cols;
    }
    RoutedRows routed;
    routed.experts = routes.experts;
    routed.pairs = x.rows * routes.used;
    routed.expert_count = experts.down->experts;
    routed.x_rows_per = routes.used;
    if (x.rows > kProductRowsMax) {
        const Grouped grouped = group_routes(routes, x.rows, routed.expert_count);
        routed.offsets = grouped.offsets;
        routed.places = grouped.places;
    }
    const Rows hidden = expert_hidden(x, experts, routed);
    float* results = floats(ScratchUse::results, routed.pairs * y.cols);
    routed.x_rows_per = 1;
    routed_product(hidden, routed, *experts.down, 0, y.cols, results);
    sum.results = results;
    written(y);
    CallKey key(kAddMixture);
    key << sum.results << sum.weights << sum.used << sum.shared << sum.shared_input
        << sum.shared_gain << y;
    recorder_.run(key, [=, this] { launch_add_mixture(stream_, sum, y); });
}

}  // namespace strata::cuda
