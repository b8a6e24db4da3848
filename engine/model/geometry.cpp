// The sizes of one conversation's memory, from the model's configuration
// (include/strata/model/geometry.hpp has the layout).
#include "strata/model/geometry.hpp"

#include "engine/model/model_config.hpp"
#include "strata/core/invariant.hpp"

namespace strata {

Geometry geometry_of(const ModelConfig& config, ElementType kv_type) {
    STRATA_INVARIANT(kv_type == ElementType::f32 || kv_type == ElementType::f16);
    const std::size_t kv_element_bytes = kv_type == ElementType::f32 ? 4 : 2;
    Geometry out;
    out.architecture = architecture_name(config.architecture);
    out.vocabulary = config.vocabulary;
    out.trained_context = config.trained_context;
    out.layers = config.layers;
    out.kv_type = kv_type;
    out.k_row_bytes =
        static_cast<std::size_t>(config.kv_heads * config.head_dim) * kv_element_bytes;
    out.v_row_bytes = out.k_row_bytes;
    if (const auto& net = config.delta_net) {
        const auto matrix = net->value_heads * net->key_dim * net->value_dim;
        const auto window = (net->conv_kernel - 1) * net->conv_channels();
        out.matrix_state_bytes = static_cast<std::size_t>(matrix) * sizeof(float);
        out.conv_state_bytes = static_cast<std::size_t>(window) * sizeof(float);
    }
    return out;
}

}  // namespace strata
