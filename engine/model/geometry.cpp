// The sizes of one conversation's memory, from the model's configuration
// (include/strata/model/geometry.hpp has the layout).
#include "strata/model/geometry.hpp"

#include <array>

#include "engine/model/model_config.hpp"
#include "strata/core/invariant.hpp"

namespace strata {
namespace {

struct KvType {
    ElementType type;
    const char* name;
    std::size_t element_bytes;
};
constexpr std::array kKvTypes = {KvType{ElementType::f32, "f32", 4},
                                 KvType{ElementType::f16, "f16", 2}};

std::size_t kv_row_bytes(const ModelConfig& config, const KvType& type) {
    return static_cast<std::size_t>(config.kv_heads * config.head_dim) * type.element_bytes;
}

}  // namespace

Geometry geometry_of(const ModelConfig& config, ElementType kv_type) {
    Geometry out;
    out.architecture = architecture_name(config.architecture);
    out.vocabulary = config.vocabulary;
    out.trained_context = config.trained_context;
    out.layers = config.layers;
    out.kv_type = kv_type;
    for (const KvType& type : kKvTypes) {
        const std::size_t row = kv_row_bytes(config, type);
        out.kv_choices.push_back({type.type, type.name, out.attention_layers() * 2 * row});
        if (type.type == kv_type) out.k_row_bytes = row;
    }
    STRATA_INVARIANT(out.k_row_bytes > 0);
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
