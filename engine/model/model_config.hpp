// What the metadata of a model file says about the model: sizes, heads, rope, experts, layer kinds.
// Owns the meaning, the defaults and the limits of those keys. Which tensors exist is weights.hpp's
// (a tied head is a missing output.weight; llama-3 rope factors are the tensor rope_freqs.weight).
//
// Source of the keys: GGUF metadata as llama.cpp's converter writes it; defaults as its loader
// takes them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/gguf/gguf.hpp"
#include "strata/backend/tensor.hpp"
#include "strata/core/result.hpp"
#include "strata/model/geometry.hpp"

namespace strata {

enum class Architecture : std::uint8_t {
    llama,
    qwen2,
    qwen3,
    qwen3_moe,
    qwen3_next,
    qwen35,
    qwen35_moe
};
// The value of general.architecture.
[[nodiscard]] std::string_view architecture_name(Architecture architecture);

// Which two elements of a head rope turns together, n = RopeConfig::dims.
enum class RopePairing : std::uint8_t {
    interleaved,  // (2i, 2i + 1)
    half_split,   // (i, i + n / 2)
};
enum class RopeScaling : std::uint8_t { none, linear, yarn };

// Angles and their scaling: rope.hpp. With yarn, cosine and sine are multiplied by
// attention_factor * (1 + 0.1 ln factor) / (1 + 0.1 yarn_log_multiplier ln factor).
struct RopeConfig {
    std::int64_t dims = 0;  // leading elements of a head that turn; even, <= head_dim
    double base = 10'000.0;
    RopePairing pairing = RopePairing::half_split;
    RopeScaling scaling = RopeScaling::none;
    double factor = 1.0;                // how many times longer than original_context
    std::int64_t original_context = 0;  // tokens
    double attention_factor = 1.0;
    double ext_factor = 1.0;
    double beta_fast = 32.0;  // turns within original_context
    double beta_slow = 1.0;
    double yarn_log_multiplier = 0.0;
};

// Router: softmax over all experts, the `used` largest, divided by their sum when `normalise`,
// times `weight_scale`.
struct ExpertConfig {
    std::int64_t count = 0;
    std::int64_t used = 0;
    std::int64_t rows = 0;  // hidden width of one expert
    std::int64_t shared_rows =
        0;  // hidden width of the shared expert; 0 = the architecture has none
    double weight_scale = 1.0;
    bool normalise = true;
};

// Which key head a value head j belongs to, r = value_heads / key_heads.
enum class ValueHeadOrder : std::uint8_t {
    grouped,  // j / r
    tiled,    // j mod key_heads
};

// Gated DeltaNet layers.
struct DeltaNetConfig {
    std::int64_t key_heads = 0;
    std::int64_t value_heads = 0;  // a multiple of key_heads
    std::int64_t key_dim = 0;      // of one head
    std::int64_t value_dim = 0;    // of one head
    std::int64_t conv_kernel = 0;  // taps
    ValueHeadOrder order = ValueHeadOrder::grouped;

    std::int64_t keys_width() const { return key_heads * key_dim; }
    std::int64_t values_width() const { return value_heads * value_dim; }
    std::int64_t conv_channels() const { return 2 * keys_width() + values_width(); }  // [Q | K | V]
};

struct ModelConfig {
    Architecture architecture = Architecture::llama;
    std::string name;                  // general.name, empty when absent
    std::int64_t vocabulary = 0;       // rows of token_embd
    std::int64_t trained_context = 0;  // tokens
    std::int64_t width = 0;            // embedding length
    std::int64_t ffn_rows = 0;  // hidden width of a dense layer; 0 when all layers have experts
    std::int64_t heads = 0;     // query heads, a multiple of kv_heads
    std::int64_t kv_heads = 0;
    std::int64_t head_dim = 0;  // of query, key and value
    double rms_eps = 0.0;
    double attention_scale = 0.0;  // multiplies q . k
    RopeConfig rope;
    std::optional<ExpertConfig> experts;
    std::optional<DeltaNetConfig> delta_net;
    std::vector<LayerKind> layers;  // the main layers, without MTP
    std::int64_t mtp_layers =
        0;  // blocks [layers.size(), layers.size() + mtp_layers), tensors may be absent

    // Facts of the architecture.
    bool qkv_bias = false;         // attn_q/k/v.bias
    bool qk_norm = false;          // attn_q_norm, attn_k_norm before rope
    bool gated_attention = false;  // attn_q rows are [query | gate] per head
};

// Refusals name the key, its value and what is allowed.
Result<ModelConfig> read_model_config(const gguf::Header& header);

Geometry geometry_of(const ModelConfig& config, KvType kv_type);

}  // namespace strata
