// Mixtures of experts: the router's choice, the chosen experts' parts, and their sum.
#include <array>

#include "engine/backend/cuda/cuda_ops.hpp"
#include "engine/backend/cuda/launch/expert_products.hpp"
#include "engine/backend/cuda/launch/routing.hpp"
#include "engine/backend/cuda/launch/row_experts.hpp"

namespace strata::cuda {
namespace {

enum Call : std::uint64_t {
    kChoose = 1000,  // apart from those of cuda_ops.cpp
    kGroup,
    kRoutedProduct,
    kAddMixture,
    kRowHidden,
    kRowResult,
};

CallKey& operator<<(CallKey& key, Rows rows) {
    return key << rows.values << rows.rows << rows.cols;
}

RoutedWeight routed_weight(cudaStream_t stream, const Weight& weight, std::int64_t first_row) {
    return {on_device(weight).planes, weight.rows, first_row,
            on_device(weight).device_expert_scales(stream), weight.scale};
}

// True when the kernels of one row take these experts.
bool row_takes(const Experts& experts, std::int64_t cols) {
    const Weight& gate = experts.gate_up != nullptr ? *experts.gate_up : *experts.gate;
    const Weight& up = experts.gate_up != nullptr ? *experts.gate_up : *experts.up;
    return takes_row_experts(gate.type, up.type, experts.down->type, cols, experts.hidden);
}

// True when the products of these experts can be computed in tiles.
bool tiles_take(const Experts& experts, std::int64_t cols) {
    const Weight& gate = experts.gate_up != nullptr ? *experts.gate_up : *experts.gate;
    const bool alike = experts.gate_up != nullptr || experts.gate->type == experts.up->type;
    return alike && takes_expert_tiles(gate.type, cols, experts.hidden) &&
           takes_expert_tiles(experts.down->type, experts.hidden, experts.down->rows);
}

}  // namespace

void CudaOps::moe_route(Rows x, const Weight& router, const RouteRule& rule, Routes routes) {
    const Rows scores{floats(ScratchUse::scores, x.rows * router.rows), x.rows, router.rows};
    const Projection of{&router, nullptr, scores, false};
    linear(x, {&of, 1});
    CallKey key(kChoose);
    key << scores << rule.normalise << rule.scale << routes.experts << routes.weights
        << routes.used;
    run(key, [=, this] {
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
    run(key, [=, this] { launch_group_routes(stream_, routes, rows, experts, offsets, places); });
    return {offsets, places};
}

void CudaOps::routed_product(Rows x, const RoutedRows& routed, const Weight& weight,
                             std::int64_t first_row, std::int64_t rows, float* y) {
    ProductInput input{x, {}};
    if (!is_float(weight.type)) input.quantised = codes_of(x);
    const RoutedWeight of = routed_weight(stream_, weight, first_row);
    const ElementType type = weight.type;
    CallKey key(kRoutedProduct);
    key << x << input.quantised.codes << routed.experts << routed.offsets << routed.places
        << routed.pairs << routed.x_rows_per << &weight << first_row << rows << y;
    run(key, [=, this] { launch_routed_product(stream_, type, input, routed, of, rows, y); });
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

// The results of all pairs, [pairs][down.rows]: few rows at a time.
const float* CudaOps::routed_experts(Rows x, const Experts& experts, Routes routes) {
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
    const std::int64_t cols = experts.down->rows;
    float* results = floats(ScratchUse::results, routed.pairs * cols);
    routed.x_rows_per = 1;
    routed_product(hidden, routed, *experts.down, 0, cols, results);
    return results;
}

// The same on tensor cores. Steps of so many rows are not recorded.
const float* CudaOps::tiled_experts(Rows x, const Experts& experts, Routes routes) {
    const std::int64_t pairs = x.rows * routes.used;
    const std::int64_t count = experts.down->experts;
    const std::int64_t f = experts.hidden;
    const Grouped grouped = group_routes(routes, x.rows, count);
    TiledPairs tiled{nullptr, grouped.places, cut_of(pairs, count)};
    auto* tiles = static_cast<ExpertTile*>(scratch_.take(
        ScratchUse::tiles, static_cast<std::size_t>(tiled.cut.tiles) * sizeof(ExpertTile)));
    launch_cut_tiles(stream_, grouped.offsets, count, tiled.cut, tiles);
    tiled.tiles = tiles;

    float* hidden = floats(ScratchUse::hidden, pairs * f / 2);  // bf16: half as many floats
    written({hidden, pairs, f / 2});
    const bool fused = experts.gate_up != nullptr;
    const Weight& gate = fused ? *experts.gate_up : *experts.gate;
    const Weight& up = fused ? *experts.gate_up : *experts.up;
    launch_gated_expert_product(stream_, gate.type, bf16_of(x), x.cols, routes.used, tiled,
                                routed_weight(stream_, gate, 0),
                                routed_weight(stream_, up, fused ? f : 0), f, hidden);
    const Weight& down = *experts.down;
    float* results = floats(ScratchUse::results, pairs * down.rows);
    launch_expert_product(stream_, down.type, hidden, f, tiled, routed_weight(stream_, down, 0),
                          down.rows, results);
    return results;
}

// Adds the sum of the experts of a step of one row to y.
void CudaOps::row_experts(Rows x, const Experts& experts, Routes routes, Rows y) {
    const bool fused = experts.gate_up != nullptr;
    const Weight& gate = fused ? *experts.gate_up : *experts.gate;
    const Weight& up = fused ? *experts.gate_up : *experts.up;
    const Weight& down = *experts.down;
    const std::int64_t f = experts.hidden;
    QuantisedView hidden;
    hidden.codes = static_cast<std::int8_t*>(
        scratch_.take(ScratchUse::hidden_codes, static_cast<std::size_t>(routes.used * f)));
    hidden.scaled = static_cast<float2*>(
        scratch_.take(ScratchUse::hidden_steps,
                      static_cast<std::size_t>(routes.used * f / kGroupElements) * sizeof(float2)));
    RowHidden first;
    first.experts = routes.experts;
    first.gate = routed_weight(stream_, gate, 0);
    first.up = routed_weight(stream_, up, fused ? f : 0);
    first.cols = x.cols;
    first.x = codes_of(x);
    first.hidden = hidden;
    const ElementType type = gate.type;
    const std::int64_t used = routes.used;
    CallKey key(kRowHidden);
    key << x << first.x.codes << routes.experts << used << &gate << &up << f << hidden.codes;
    run(key, [=, this] { launch_row_hidden(stream_, type, first, used, f); });

    const RowResult second{routes.experts,
                           routes.weights,
                           static_cast<int>(used),
                           routed_weight(stream_, down, 0),
                           down.rows,
                           f,
                           hidden,
                           y.values};
    const ElementType down_type = down.type;
    written(y);
    CallKey second_key(kRowResult);
    second_key << routes.experts << routes.weights << used << &down << f << hidden.codes << y;
    run(second_key, [=, this] { launch_row_result(stream_, down_type, second); });
}

void CudaOps::add_shared(Rows x, const SharedExpert& shared, std::int64_t cols, MixtureSum& sum) {
    const std::int64_t width = shared.gate->rows;
    const Rows hidden{floats(ScratchUse::shared_hidden, x.rows * width), x.rows, width};
    const Rows results{floats(ScratchUse::shared_results, x.rows * cols), x.rows, cols};
    gated_linear(x, *shared.gate, *shared.up, hidden);
    const Projection down{shared.down, nullptr, results, false};
    linear(hidden, {&down, 1});
    sum.shared = results.values;
    sum.shared_input = x.values;
    sum.shared_gain = shared.gate_input;
    sum.shared_cols = x.cols;
}

void CudaOps::moe_ffn(Rows x, const Experts& experts, const SharedExpert* shared, Routes routes,
                      Rows y) {
    read(x);
    read(y);
    MixtureSum sum;
    sum.weights = routes.weights;
    sum.used = routes.used;
    const bool tiled = !exact_ && chip_.multiplies_bf16() && x.rows > kProductRowsMax &&
                       tiles_take(experts, x.cols);
    // First: the shared expert's hidden values take the place of x in bf16.
    if (fuses(x) && row_takes(experts, x.cols)) {
        row_experts(x, experts, routes, y);
        if (shared == nullptr) return;
        sum.used = 0;  // they are in y
    } else if (tiled) {
        sum.results = tiled_experts(x, experts, routes);
    } else {
        sum.results = routed_experts(x, experts, routes);
    }
    if (shared != nullptr) add_shared(x, *shared, y.cols, sum);
    written(y);
    CallKey key(kAddMixture);
    key << sum.results << sum.weights << sum.used << sum.shared << sum.shared_input
        << sum.shared_gain << y;
    run(key, [=, this] { launch_add_mixture(stream_, sum, y); });
}

}  // namespace strata::cuda
