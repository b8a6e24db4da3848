// qwen3next (Qwen3-Next): three gated delta nets, then one attention layer with a gated output and
// a partial rotation; experts with a shared expert. Value head j of a delta net reads key head j /
// r, r = value heads / key heads, and beta and alpha come from one tensor, ssm_ba: for each key
// head r rows of beta, then r of alpha.
#include <string>

#include "engine/model/arch/parts.hpp"
#include "engine/model/tensor_names.hpp"

namespace strata {
namespace {

void load_interleaved_gates(const ModelSource& source, std::int64_t block, DeltaNetPart& part) {
    const DeltaNetConfig& net = *source.config.delta_net;
    const std::int64_t share = net.value_heads / net.key_heads;
    const std::string name = block_tensor(block, "ssm_ba.weight");
    const std::int64_t rows = 2 * net.value_heads;
    part.beta = source.load.row_groups(name, source.config.width, rows, 0, share, 2 * share);
    part.alpha = source.load.row_groups(name, source.config.width, rows, share, share, 2 * share);
}

}  // namespace

Decoder load_qwen3_next(const ModelSource& source) {
    Decoder out = load_frame(source);
    const std::int64_t blocks = static_cast<std::int64_t>(source.config.layers.size());
    for (std::int64_t block = 0; block < blocks; ++block) {
        DecoderLayer layer;
        layer.mixer_gain = load_norm(source, block, "attn_norm.weight");
        if (source.config.layers[static_cast<std::size_t>(block)] == LayerKind::attention) {
            layer.mixer = load_attention(source, block);
        } else {
            DeltaNetPart part = load_delta_net(source, block);
            load_interleaved_gates(source, block, part);
            layer.mixer = part;
        }
        layer.ffn_gain = load_norm(source, block, "post_attention_norm.weight");
        layer.ffn = load_mixture(source, block);
        out.layers.push_back(layer);
    }
    return out;
}

}  // namespace strata
