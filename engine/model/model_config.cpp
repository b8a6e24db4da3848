#include "engine/model/model_config.hpp"

#include <array>
#include <cmath>
#include <utility>

#include "engine/model/metadata_keys.hpp"

namespace strata {
namespace {

// Limits. Each is several times what the largest released model has; below them no product of sizes
// can leave 64 bits, so the code that uses a ModelConfig need not check again.
constexpr std::int64_t kLayersMax = 1'024;
constexpr std::int64_t kWidthMax = 131'072;
constexpr std::int64_t kFfnRowsMax = 1'048'576;
constexpr std::int64_t kHeadsMax = 1'024;
constexpr std::int64_t kHeadDimMax = 1'024;
constexpr std::int64_t kVocabularyMax = 4'194'304;
constexpr std::int64_t kContextMax = 16'777'216;
constexpr std::int64_t kExpertsMax = 4'096;
constexpr std::int64_t kConvKernelMax = 16;
constexpr double kRmsEpsMax = 0.1;
constexpr double kAttentionScaleMax = 100.0;
constexpr double kRopeBaseMax = 1e12;
constexpr double kRopeFactorMax = 1e4;
constexpr double kYarnFactorMax = 1e3;
constexpr double kExpertWeightScaleMax = 1e3;

constexpr std::int64_t kAttentionIntervalDefault = 4;
constexpr std::int64_t kGatingUnset = 0;
constexpr std::int64_t kGatingSoftmax = 1;

struct Traits {
    Architecture architecture;
    std::string_view name;
    bool qkv_bias;
    bool qk_norm;
    bool experts;
    bool shared_expert;
    bool delta_net;  // brings gated attention
};
constexpr std::array<Traits, 7> kTraits = {{
    {Architecture::llama, "llama", false, false, false, false, false},
    {Architecture::qwen2, "qwen2", true, false, false, false, false},
    {Architecture::qwen3, "qwen3", false, true, false, false, false},
    {Architecture::qwen3_moe, "qwen3moe", false, true, true, false, false},
    {Architecture::qwen3_next, "qwen3next", false, true, true, true, true},
    {Architecture::qwen35, "qwen35", false, true, false, false, true},
    {Architecture::qwen35_moe, "qwen35moe", false, true, true, true, true},
}};

std::string known_architectures() {
    std::string out;
    for (const auto& traits : kTraits) out += (out.empty() ? "" : ", ") + std::string(traits.name);
    return out;
}

const Traits* traits_of(std::string_view name) {
    for (const auto& traits : kTraits) {
        if (traits.name == name) return &traits;
    }
    return nullptr;
}

std::optional<std::int64_t> token_count(const gguf::Header& header) {
    const gguf::Value* tokens = header.find("tokenizer.ggml.tokens");
    const auto* list = tokens == nullptr ? nullptr : std::get_if<gguf::StringArray>(tokens);
    if (list == nullptr) return std::nullopt;
    return static_cast<std::int64_t>(list->values.size());
}

void read_sizes(MetadataKeys& keys, const gguf::Header& header, const Traits& traits,
                ModelConfig& out) {
    const auto tokens = token_count(header);
    out.vocabulary = keys.integer("vocab_size", {1, kVocabularyMax}, tokens);
    if (out.vocabulary < 1 || out.vocabulary > kVocabularyMax) {
        keys.refuse_key("vocab_size", "the token list's " + std::to_string(out.vocabulary),
                        "1 to " + std::to_string(kVocabularyMax));
    }
    if (tokens && *tokens > out.vocabulary) {
        keys.refuse_key(
            "vocab_size", std::to_string(out.vocabulary),
            "at least the " + std::to_string(*tokens) + " tokens of tokenizer.ggml.tokens");
    }
    out.trained_context = keys.integer("context_length", {1, kContextMax});
    out.width = keys.integer("embedding_length", {1, kWidthMax});
    const std::optional<std::int64_t> no_dense_rows =
        traits.experts ? std::optional<std::int64_t>(0) : std::nullopt;
    out.ffn_rows =
        keys.integer("feed_forward_length", {traits.experts ? 0 : 1, kFfnRowsMax}, no_dense_rows);
    out.rms_eps = keys.real("attention.layer_norm_rms_epsilon", positive(kRmsEpsMax));
}

void read_heads(MetadataKeys& keys, ModelConfig& out) {
    out.heads = keys.integer("attention.head_count", {1, kHeadsMax});
    out.kv_heads = keys.integer("attention.head_count_kv", {1, kHeadsMax}, out.heads);
    if (out.heads % out.kv_heads != 0) {
        keys.refuse_key("attention.head_count_kv", std::to_string(out.kv_heads),
                        "a divisor of the " + std::to_string(out.heads) + " query heads");
    }
    const IntegerRange dims{2, kHeadDimMax};
    out.head_dim = keys.integer("attention.key_length", dims, out.width / out.heads);
    if (out.head_dim < dims.min || out.head_dim > dims.max || out.head_dim % 2 != 0) {
        keys.refuse_key("attention.key_length", std::to_string(out.head_dim),
                        "an even number from 2 to " + std::to_string(dims.max));
    }
    const auto value_dim = keys.integer("attention.value_length", dims, out.head_dim);
    if (value_dim != out.head_dim) {
        keys.refuse_key("attention.value_length", std::to_string(value_dim),
                        "the key length, " + std::to_string(out.head_dim));
    }
    const double usual = 1.0 / std::sqrt(static_cast<double>(out.head_dim));
    out.attention_scale = keys.real("attention.scale", positive(kAttentionScaleMax), usual);
}

RopeScaling read_scaling_type(MetadataKeys& keys) {
    // A factor without a type means linear, as in files older than the type key.
    const std::string usual = keys.has("rope.scaling.factor") ? "linear" : "none";
    const std::string type = keys.text("rope.scaling.type", usual);
    if (type == "none") return RopeScaling::none;
    if (type == "linear") return RopeScaling::linear;
    if (type == "yarn") return RopeScaling::yarn;
    keys.refuse_key("rope.scaling.type", gguf::in_quotes(type), "none, linear, yarn");
    return RopeScaling::none;
}

void read_rope(MetadataKeys& keys, ModelConfig& out) {
    RopeConfig& rope = out.rope;
    rope.pairing = out.architecture == Architecture::llama ? RopePairing::interleaved
                                                           : RopePairing::half_split;
    rope.dims = keys.integer("rope.dimension_count", {2, kHeadDimMax}, out.head_dim);
    if (rope.dims % 2 != 0 || rope.dims > out.head_dim) {
        keys.refuse_key("rope.dimension_count", std::to_string(rope.dims),
                        "an even number up to the key length, " + std::to_string(out.head_dim));
    }
    rope.base = keys.real("rope.freq_base", {1.0, kRopeBaseMax, false}, rope.base);
    rope.scaling = read_scaling_type(keys);
    rope.original_context = out.trained_context;
    if (rope.scaling == RopeScaling::none) return;
    rope.factor = keys.real("rope.scaling.factor", positive(kRopeFactorMax), 1.0);
    if (rope.scaling == RopeScaling::linear) return;
    if (rope.factor < 1.0) {
        keys.refuse_key("rope.scaling.factor", std::to_string(rope.factor), "1 or more with yarn");
    }
    rope.original_context = keys.integer("rope.scaling.original_context_length", {1, kContextMax},
                                         rope.original_context);
    rope.attention_factor = keys.real("rope.scaling.attn_factor", positive(kYarnFactorMax), 1.0);
    rope.ext_factor = keys.real("rope.scaling.yarn_ext_factor", {0.0, 1.0}, 1.0);
    rope.beta_fast =
        keys.real("rope.scaling.yarn_beta_fast", positive(kYarnFactorMax), rope.beta_fast);
    rope.beta_slow =
        keys.real("rope.scaling.yarn_beta_slow", positive(kYarnFactorMax), rope.beta_slow);
    rope.yarn_log_multiplier =
        keys.real("rope.scaling.yarn_log_multiplier", {0.0, kYarnFactorMax}, 0.0);
}

void read_experts(MetadataKeys& keys, const Traits& traits, ModelConfig& out) {
    if (!traits.experts) {
        // Mixture models of the llama family carry the plain name; running them as dense would be
        // wrong.
        keys.integer("expert_count", {0, 0}, 0);
        return;
    }
    ExpertConfig experts;
    experts.count = keys.integer("expert_count", {1, kExpertsMax});
    experts.used = keys.integer("expert_used_count", {1, experts.count});
    experts.rows = keys.integer("expert_feed_forward_length", {1, kFfnRowsMax});
    if (traits.shared_expert) {
        experts.shared_rows =
            keys.integer("expert_shared_feed_forward_length", {1, kFfnRowsMax}, experts.rows);
    }
    const double unset = 0.0;  // older files write 0 for "no scale"
    experts.weight_scale = keys.real("expert_weights_scale", {0.0, kExpertWeightScaleMax}, unset);
    if (experts.weight_scale == unset) experts.weight_scale = 1.0;
    experts.normalise = keys.flag("expert_weights_norm", true);
    const auto gating = keys.integer("expert_gating_func", {0, kExpertsMax}, kGatingSoftmax);
    if (gating != kGatingUnset && gating != kGatingSoftmax) {
        keys.refuse_key("expert_gating_func", std::to_string(gating), "1 (softmax)");
    }
    out.experts = experts;
}

void read_delta_net(MetadataKeys& keys, ModelConfig& out) {
    DeltaNetConfig net;
    net.conv_kernel = keys.integer("ssm.conv_kernel", {2, kConvKernelMax});
    net.key_dim = keys.integer("ssm.state_size", {1, kHeadDimMax});
    net.key_heads = keys.integer("ssm.group_count", {1, kHeadsMax});
    net.value_heads = keys.integer("ssm.time_step_rank", {1, kHeadsMax});
    if (net.value_heads % net.key_heads != 0) {
        keys.refuse_key("ssm.time_step_rank", std::to_string(net.value_heads),
                        "a multiple of the " + std::to_string(net.key_heads) + " key heads");
    }
    const auto width = keys.integer("ssm.inner_size", {1, kHeadsMax * kHeadDimMax});
    net.value_dim = width / net.value_heads;
    if (width % net.value_heads != 0 || net.value_dim > kHeadDimMax) {
        keys.refuse_key("ssm.inner_size", std::to_string(width),
                        std::to_string(net.value_heads) + " value heads times 1 to " +
                            std::to_string(kHeadDimMax));
    }
    net.order = out.architecture == Architecture::qwen3_next ? ValueHeadOrder::grouped
                                                             : ValueHeadOrder::tiled;
    out.delta_net = net;
}

void read_layers(MetadataKeys& keys, const Traits& traits, ModelConfig& out) {
    const auto blocks = keys.integer("block_count", {1, kLayersMax});
    out.mtp_layers = keys.integer("nextn_predict_layers", {0, blocks - 1}, 0);
    out.layers.assign(static_cast<std::size_t>(blocks - out.mtp_layers), LayerKind::attention);
    if (!traits.delta_net) return;
    const auto interval =
        keys.integer("full_attention_interval", {1, kLayersMax}, kAttentionIntervalDefault);
    const auto listed = keys.flags("attention.recurrent_layers");
    if (listed && listed->size() != static_cast<std::size_t>(blocks)) {
        keys.refuse_key("attention.recurrent_layers",
                        std::to_string(listed->size()) + " entries long",
                        "one for each of the " + std::to_string(blocks) + " blocks");
        return;
    }
    for (std::size_t i = 0; i < out.layers.size(); ++i) {
        const bool recurrent =
            listed ? (*listed)[i] : (i + 1) % static_cast<std::size_t>(interval) != 0;
        if (recurrent) out.layers[i] = LayerKind::recurrent;
    }
}

}  // namespace

std::string_view architecture_name(Architecture architecture) {
    for (const auto& traits : kTraits) {
        if (traits.architecture == architecture) return traits.name;
    }
    return "unknown";
}

Result<ModelConfig> read_model_config(const gguf::Header& header) {
    const auto name = header.string_value("general.architecture");
    if (!name) return name.failure();
    const Traits* traits = traits_of(*name);
    if (traits == nullptr) {
        return refuse("metadata key general.architecture is " + gguf::in_quotes(*name) +
                      "; allowed: " + known_architectures());
    }
    ModelConfig out;
    out.architecture = traits->architecture;
    out.qkv_bias = traits->qkv_bias;
    out.qk_norm = traits->qk_norm;
    out.gated_attention = traits->delta_net;
    MetadataKeys general(header, "general.");
    out.name = general.text("name", "");
    if (general.refusal()) return Failure<Refusal>{*general.refusal()};
    MetadataKeys keys(header, std::string(traits->name) + ".");
    read_sizes(keys, header, *traits, out);
    read_heads(keys, out);
    read_rope(keys, out);
    read_experts(keys, *traits, out);
    if (traits->delta_net) read_delta_net(keys, out);
    read_layers(keys, *traits, out);
    if (keys.refusal()) return Failure<Refusal>{*keys.refusal()};
    return out;
}

}  // namespace strata
