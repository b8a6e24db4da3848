// The sizes of one conversation's memory, from the model's configuration
// (include/strata/model/geometry.hpp has the layout).
#include "strata/model/geometry.hpp"

#include "engine/model/model_config.hpp"

namespace strata {
namespace {

std::size_t kv_row_bytes(const ModelConfig& config, KvType type) {
    return KvRows{type, config.kv_heads, config.head_dim}.row_bytes();
}

}  // namespace

Geometry geometry_of(const ModelConfig& config, KvType kv_type) {
    Geometry out;
    out.architecture = architecture_name(config.architecture);
    out.vocabulary = config.vocabulary;
    out.trained_context = config.trained_context;
    out.layers = config.layers;
    out.kv_type = kv_type;
    for (const KvType type : kKvTypes) {
        out.kv_choices.push_back({type, out.attention_layers() * 2 * kv_row_bytes(config, type)});
    }
    out.k_row_bytes = kv_row_bytes(config, kv_type);
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
