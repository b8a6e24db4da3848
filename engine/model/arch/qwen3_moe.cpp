// qwen3moe: the attention of qwen3; the feed-forward part is a mixture of experts, the weights of
// the chosen ones divided by their sum.
#include "engine/model/arch/parts.hpp"

namespace strata {

Decoder load_qwen3_moe(const ModelSource& source) {
    Decoder out = load_frame(source);
    const std::int64_t blocks = static_cast<std::int64_t>(source.config.layers.size());
    for (std::int64_t block = 0; block < blocks; ++block) {
        DecoderLayer layer;
        layer.mixer_gain = load_norm(source, block, "attn_norm.weight");
        layer.mixer = load_attention(source, block);
        layer.ffn_gain = load_norm(source, block, "ffn_norm.weight");
        layer.ffn = load_mixture(source, block);
        out.layers.push_back(layer);
    }
    return out;
}

}  // namespace strata
