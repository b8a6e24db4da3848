// llama (Llama 2 and 3 and their kin): attention with rotation of adjacent pairs (the converter
// permutes the rows of q and k for it), angles divided by rope_freqs.weight where the file has it,
// SwiGLU.
#include "engine/model/arch/parts.hpp"

namespace strata {

Decoder load_llama(const ModelSource& source) {
    Decoder out = load_frame(source);
    const std::int64_t blocks = static_cast<std::int64_t>(source.config.layers.size());
    for (std::int64_t block = 0; block < blocks; ++block) {
        DecoderLayer layer;
        layer.mixer_gain = load_norm(source, block, "attn_norm.weight");
        layer.mixer = load_attention(source, block);
        layer.ffn_gain = load_norm(source, block, "ffn_norm.weight");
        layer.ffn = load_dense(source, block);
        out.layers.push_back(layer);
    }
    return out;
}

}  // namespace strata
