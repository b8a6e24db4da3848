#include "engine/model/layers.hpp"

#include <array>

namespace strata {

void AttentionPart::add_to(Pass& pass, Rows n, Rows x) const {
    const Arena::Scope scope(pass.arena);
    const Rows queries = pass.arena.rows(n.rows, shape.heads * shape.query_stride());
    const Rows keys = pass.arena.rows(n.rows, shape.kv_heads * shape.key_dim);
    const Rows values = pass.arena.rows(n.rows, shape.kv_heads * shape.value_dim);
    const Rows mixed = pass.arena.rows(n.rows, shape.heads * shape.value_dim);
    const std::array<Projection, 3> inputs = {
        {{q, q_bias, queries, false}, {k, k_bias, keys, false}, {v, v_bias, values, false}}};
    pass.ops.linear(n, inputs);
    QkPreparation preparation = pass.preparation;
    preparation.q_gain = q_gain;
    preparation.k_gain = k_gain;
    pass.ops.store_attention_inputs(shape, preparation, queries, keys, values);
    pass.ops.attention(shape, queries, mixed);
    const Projection out{output, output_bias, x, true};
    pass.ops.linear(mixed, {&out, 1});
}

std::int64_t AttentionPart::scratch_columns() const {
    return shape.heads * (shape.query_stride() + shape.value_dim) +
           shape.kv_heads * (shape.key_dim + shape.value_dim);
}

void DeltaNetPart::add_to(Pass& pass, Rows n, Rows x) const {
    const Arena::Scope scope(pass.arena);
    const std::int64_t width = shape.value_heads * shape.value_dim;
    const Rows u = pass.arena.rows(n.rows, convolution.channels);
    const Rows c = pass.arena.rows(n.rows, convolution.channels);
    const Rows z = pass.arena.rows(n.rows, width);
    const Rows o = pass.arena.rows(n.rows, width);
    const Rows b = pass.arena.rows(n.rows, shape.value_heads);
    const Rows decay = pass.arena.rows(n.rows, shape.value_heads);
    const std::array<Projection, 4> inputs = {{{qkv, nullptr, u, false},
                                               {gate, nullptr, z, false},
                                               {beta, nullptr, b, false},
                                               {alpha, nullptr, decay, false}}};
    pass.ops.linear(n, inputs);
    pass.ops.convolution(convolution, u, taps, c);
    pass.ops.delta_rule(shape, c, b, decay, a, dt_bias, o);
    pass.ops.gated_rms_norm(o, z, shape.value_dim, gain, pass.epsilon, o);
    const Projection out{output, nullptr, x, true};
    pass.ops.linear(o, {&out, 1});
}

std::int64_t DeltaNetPart::scratch_columns() const {
    return 2 * convolution.channels + 2 * shape.value_heads * (shape.value_dim + 1);
}

void DensePart::add_to(Pass& pass, Rows n, Rows x) const {
    const Arena::Scope scope(pass.arena);
    const Rows middle = pass.arena.rows(n.rows, hidden);
    pass.ops.gated_linear(n, *gate, *up, middle);
    const Projection out{down, nullptr, x, true};
    pass.ops.linear(middle, {&out, 1});
}

void MixturePart::add_to(Pass& pass, Rows n, Rows x) const {
    const Arena::Scope scope(pass.arena);
    Routes routes;
    routes.experts = reinterpret_cast<std::int32_t*>(pass.arena.floats(n.rows * used));
    routes.weights = pass.arena.floats(n.rows * used);
    routes.used = used;
    pass.ops.moe_route(n, *router, rule, routes);
    pass.ops.moe_ffn(n, experts, has_shared ? &shared : nullptr, routes, x);
}

std::int64_t MixturePart::scratch_columns() const {
    static_assert(sizeof(std::int32_t) == sizeof(float));
    return 2 * used;
}

}  // namespace strata
