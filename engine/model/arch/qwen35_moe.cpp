// qwen35moe (Qwen3.5, mixture of experts): the mixers of qwen35, the experts and the shared expert
// of qwen3next.
#include "engine/model/arch/parts.hpp"

namespace strata {

Decoder load_qwen35_moe(const ModelSource& source) {
    Decoder out = load_frame(source);
    const std::int64_t blocks = static_cast<std::int64_t>(source.config.layers.size());
    for (std::int64_t block = 0; block < blocks; ++block) {
        DecoderLayer layer;
        layer.mixer_gain = load_norm(source, block, "attn_norm.weight");
        if (source.config.layers[static_cast<std::size_t>(block)] == LayerKind::attention) {
            layer.mixer = load_attention(source, block);
        } else {
            DeltaNetPart part = load_delta_net(source, block);
            load_separate_gates(source, block, part);
            layer.mixer = part;
        }
        layer.ffn_gain = load_norm(source, block, "post_attention_norm.weight");
        layer.ffn = load_mixture(source, block);
        out.layers.push_back(layer);
    }
    return out;
}

}  // namespace strata
