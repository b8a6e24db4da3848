#include "engine/model/arch/parts.hpp"

#include <algorithm>
#include <string>

#include "engine/model/rope.hpp"
#include "engine/model/tensor_names.hpp"
#include "strata/core/types.hpp"

namespace strata {
namespace {

// How many layers of `kind` come before layer `block`.
std::size_t rank_of(const Geometry& geometry, std::int64_t block, LayerKind kind) {
    const auto first = geometry.layers.begin();
    return static_cast<std::size_t>(std::count(first, first + block, kind));
}

AttentionShape attention_shape(const ModelSource& source, std::int64_t block) {
    const ModelConfig& config = source.config;
    const Geometry& geometry = source.geometry;
    constexpr std::size_t kRows = static_cast<std::size_t>(kPageTokens);
    AttentionShape shape;
    shape.heads = config.heads;
    shape.kv_heads = config.kv_heads;
    shape.key_dim = config.head_dim;
    shape.value_dim = config.head_dim;
    shape.scale = static_cast<float>(config.attention_scale);
    shape.gated = config.gated_attention;
    shape.kv_type = geometry.kv_type;
    shape.k_offset = rank_of(geometry, block, LayerKind::attention) * kRows *
                     (geometry.k_row_bytes + geometry.v_row_bytes);
    shape.v_offset = shape.k_offset + kRows * geometry.k_row_bytes;
    return shape;
}

}  // namespace

const float* load_norm(const ModelSource& source, std::int64_t block, std::string_view part) {
    return source.load.values(block_tensor(block, part), source.config.width);
}

Decoder load_frame(const ModelSource& source) {
    const ModelConfig& config = source.config;
    WeightLoader& load = source.load;
    Decoder out;
    out.width = config.width;
    out.epsilon = static_cast<float>(config.rms_eps);
    out.embedding = load.matrix(std::string(kTokenEmbedding), config.width, config.vocabulary);
    out.output_gain = load.values(std::string(kOutputNorm), config.width);
    out.head = load.contains(std::string(kOutput))
                   ? load.matrix(std::string(kOutput), config.width, config.vocabulary)
                   : out.embedding;
    const std::vector<float> divisors =
        load.optional_host_values(std::string(kRopeFactors), config.rope.dims / 2);
    if (std::any_of(divisors.begin(), divisors.end(), [](float d) { return !(d > 0.0F); })) {
        load.refuse_if_present(std::string(kRopeFactors), "has a value that is not above zero");
    }
    out.angles.frequencies = load.upload_doubles(rope_frequencies(config.rope, divisors));
    out.angles.pairs = config.rope.dims / 2;
    out.angles.magnitude = static_cast<float>(rope_magnitude(config.rope));
    out.pairing = config.rope.pairing == RopePairing::interleaved ? RotaryPairs::adjacent
                                                                  : RotaryPairs::halves;
    return out;
}

AttentionPart load_attention(const ModelSource& source, std::int64_t block) {
    const ModelConfig& config = source.config;
    WeightLoader& load = source.load;
    const auto name = [&](std::string_view part) { return block_tensor(block, part); };
    AttentionPart out;
    out.shape = attention_shape(source, block);
    const std::int64_t queries = out.shape.heads * out.shape.query_stride();
    const std::int64_t keys = config.kv_heads * config.head_dim;
    const std::int64_t mixed = config.heads * config.head_dim;
    out.q = load.matrix(name("attn_q.weight"), config.width, queries);
    out.k = load.matrix(name("attn_k.weight"), config.width, keys);
    out.v = load.matrix(name("attn_v.weight"), config.width, keys);
    out.output = load.matrix(name("attn_output.weight"), mixed, config.width);
    const auto bias = [&](std::string_view part, std::int64_t count) {
        return config.qkv_bias ? load.values(name(part), count)
                               : load.optional_values(name(part), count);
    };
    out.q_bias = bias("attn_q.bias", queries);
    out.k_bias = bias("attn_k.bias", keys);
    out.v_bias = bias("attn_v.bias", keys);
    out.output_bias = load.optional_values(name("attn_output.bias"), config.width);
    if (config.qk_norm) {
        out.q_gain = load.values(name("attn_q_norm.weight"), config.head_dim);
        out.k_gain = load.values(name("attn_k_norm.weight"), config.head_dim);
    }
    return out;
}

DeltaNetPart load_delta_net(const ModelSource& source, std::int64_t block) {
    const ModelConfig& config = source.config;
    const DeltaNetConfig& net = *config.delta_net;
    const Geometry& geometry = source.geometry;
    WeightLoader& load = source.load;
    const auto name = [&](std::string_view part) { return block_tensor(block, part); };
    load.refuse_if_present(
        name("ssm_in.weight"),
        "the fused projection of early conversions is not supported; convert the "
        "model again to get attn_qkv.weight and attn_gate.weight");
    DeltaNetPart out;
    out.qkv = load.matrix(name("attn_qkv.weight"), config.width, net.conv_channels());
    out.gate = load.matrix(name("attn_gate.weight"), config.width, net.values_width());
    out.output = load.matrix(name("ssm_out.weight"), net.values_width(), config.width);
    out.taps = load.turned_values(name("ssm_conv1d.weight"), net.conv_kernel, net.conv_channels());
    out.dt_bias = load.values(name("ssm_dt.bias"), net.value_heads);
    out.a = load.values(name("ssm_a"), net.value_heads);
    out.gain = load.values(name("ssm_norm.weight"), net.value_dim);
    const std::size_t state = rank_of(geometry, block, LayerKind::recurrent) *
                              (geometry.matrix_state_bytes + geometry.conv_state_bytes);
    out.convolution.channels = net.conv_channels();
    out.convolution.kernel = net.conv_kernel;
    out.convolution.state_offset = state + geometry.matrix_state_bytes;
    out.shape.key_heads = net.key_heads;
    out.shape.value_heads = net.value_heads;
    out.shape.key_dim = net.key_dim;
    out.shape.value_dim = net.value_dim;
    out.shape.map = net.order == ValueHeadOrder::grouped ? HeadMap::grouped : HeadMap::tiled;
    out.shape.state_offset = state;
    return out;
}

void load_separate_gates(const ModelSource& source, std::int64_t block, DeltaNetPart& part) {
    const std::int64_t heads = source.config.delta_net->value_heads;
    part.beta =
        source.load.matrix(block_tensor(block, "ssm_beta.weight"), source.config.width, heads);
    part.alpha =
        source.load.matrix(block_tensor(block, "ssm_alpha.weight"), source.config.width, heads);
}

DensePart load_dense(const ModelSource& source, std::int64_t block) {
    const ModelConfig& config = source.config;
    WeightLoader& load = source.load;
    const auto name = [&](std::string_view part) { return block_tensor(block, part); };
    for (const char* part : {"ffn_gate.bias", "ffn_up.bias", "ffn_down.bias"}) {
        load.refuse_if_present(name(part), "biases of the feed-forward part are not supported");
    }
    DensePart out;
    out.hidden = config.ffn_rows;
    out.gate = load.matrix(name("ffn_gate.weight"), config.width, config.ffn_rows);
    out.up = load.matrix(name("ffn_up.weight"), config.width, config.ffn_rows);
    out.down = load.matrix(name("ffn_down.weight"), config.ffn_rows, config.width);
    return out;
}

MixturePart load_mixture(const ModelSource& source, std::int64_t block) {
    const ModelConfig& config = source.config;
    const ExpertConfig& experts = *config.experts;
    WeightLoader& load = source.load;
    const auto name = [&](std::string_view part) { return block_tensor(block, part); };
    const std::int64_t width = config.width;
    MixturePart out;
    out.router = load.matrix(name("ffn_gate_inp.weight"), width, experts.count);
    out.used = experts.used;
    out.rule.normalise = experts.normalise;
    out.rule.scale = static_cast<float>(experts.weight_scale);
    out.experts.hidden = experts.rows;
    if (load.contains(name("ffn_gate_up_exps.weight"))) {
        out.experts.gate_up =
            load.matrix(name("ffn_gate_up_exps.weight"), width, 2 * experts.rows, experts.count);
    } else {
        out.experts.gate =
            load.matrix(name("ffn_gate_exps.weight"), width, experts.rows, experts.count);
        out.experts.up =
            load.matrix(name("ffn_up_exps.weight"), width, experts.rows, experts.count);
    }
    out.experts.down =
        load.matrix(name("ffn_down_exps.weight"), experts.rows, width, experts.count);
    if (experts.shared_rows > 0) {
        out.has_shared = true;
        out.shared.gate = load.matrix(name("ffn_gate_shexp.weight"), width, experts.shared_rows);
        out.shared.up = load.matrix(name("ffn_up_shexp.weight"), width, experts.shared_rows);
        out.shared.down = load.matrix(name("ffn_down_shexp.weight"), experts.shared_rows, width);
        out.shared.gate_input = load.values(name("ffn_gate_inp_shexp.weight"), width);
    }
    return out;
}

}  // namespace strata
