#include "tools/bench/synthetic/geometry.hpp"

#include <array>
#include <cstdio>
#include <numeric>
#include <optional>

namespace strata::bench {
namespace {

struct Experts {
    std::int64_t count = 0;  // 0 = dense
    std::int64_t used = 0;
    std::int64_t rows = 0;
    std::int64_t shared_rows = 0;
};
struct DeltaNet {
    std::int64_t key_heads = 0;  // 0 = attention in every layer
    std::int64_t value_heads = 0;
    std::int64_t head_dim = 128;  // of keys and of values
};

// One released model's sizes, by its metadata.
struct Sizes {
    std::string_view name;
    std::string_view architecture;
    std::int64_t layers = 0;
    std::int64_t width = 0;
    std::int64_t heads = 0;
    std::int64_t kv_heads = 0;
    std::int64_t head_dim = 0;
    std::int64_t ffn_rows = 0;  // 0 with experts
    std::int64_t vocabulary = 0;
    float rope_base = 0;
    bool tied = false;
    Experts experts{};
    DeltaNet delta_net{};
    bool listed = true;  // false: for tests
};

constexpr std::int64_t kContext = 262'144;  // of all: long enough for every test
constexpr std::int64_t kAttentionInterval = 4;
constexpr std::int64_t kConvKernel = 4;
constexpr std::int64_t kHybridRotation = 4;  // hybrids turn a quarter of a head
constexpr float kNormEpsilon = 1e-6F;

constexpr std::array kSizes = {
    Sizes{"qwen3-0.6b", "qwen3", 28, 1024, 16, 8, 128, 3072, 151'936, 1e6F, true},
    Sizes{"qwen3-8b", "qwen3", 36, 4096, 32, 8, 128, 12'288, 151'936, 1e6F},
    Sizes{"qwen3-30b-a3b",
          "qwen3moe",
          48,
          2048,
          32,
          4,
          128,
          0,
          151'936,
          1e6F,
          false,
          {128, 8, 768, 0}},
    Sizes{"qwen3-next-80b-a3b",
          "qwen3next",
          48,
          2048,
          16,
          2,
          256,
          0,
          151'936,
          1e7F,
          false,
          {512, 10, 512, 512},
          {16, 32}},
    Sizes{"qwen3.5-0.8b", "qwen35", 24, 1024, 8, 2, 256, 3584, 248'320, 1e7F, true, {}, {16, 16}},
    Sizes{"qwen3.5-4b", "qwen35", 32, 2560, 16, 4, 256, 9216, 248'320, 1e7F, false, {}, {16, 32}},
    Sizes{"qwen3.5-9b", "qwen35", 32, 4096, 16, 4, 256, 12'288, 248'320, 1e7F, false, {}, {16, 32}},
    Sizes{"tiny-qwen3", "qwen3", 3, 256, 4, 2, 64, 512, 512, 1e6F, true, {}, {}, false},
    Sizes{"tiny-qwen3-20k", "qwen3", 3, 256, 4, 2, 64, 512, 20'000, 1e6F, true, {}, {}, false},
    Sizes{"tiny-qwen3moe",
          "qwen3moe",
          3,
          256,
          4,
          2,
          64,
          0,
          512,
          1e6F,
          false,
          {8, 2, 256, 0},
          {},
          false},
    Sizes{"tiny-qwen3next",
          "qwen3next",
          4,
          256,
          4,
          2,
          64,
          0,
          512,
          1e7F,
          false,
          {8, 2, 256, 256},
          {2, 4, 64},
          false},
    Sizes{"tiny-qwen35", "qwen35", 4, 256, 4, 2, 64, 512, 512, 1e7F, false, {}, {2, 4, 64}, false},
};

struct Kind {
    std::string_view name;
    ElementType type;
    ElementType better;  // of half of the value and down matrices, and of the output
};
constexpr std::array kKinds = {
    Kind{"f16", ElementType::f16, ElementType::f16},
    Kind{"q8_0", ElementType::q8_0, ElementType::q8_0},
    Kind{"q4_k", ElementType::q4_k, ElementType::q6_k},  // the mix called Q4_K_M
    Kind{"iq3_s", ElementType::iq3_s, ElementType::iq3_s},
    Kind{"nvfp4", ElementType::nvfp4, ElementType::nvfp4},
};

// Writes one model down, part by part.
class Draft {
  public:
    Draft(const Sizes& sizes, const Kind& kind) : sizes_(sizes), kind_(kind) {}

    SyntheticModel whole() {
        add_keys();
        matrix("token_embd.weight", sizes_.width, sizes_.vocabulary, kind_.type);
        for (std::int64_t layer = 0; layer < sizes_.layers; ++layer) add_layer(layer);
        values("output_norm.weight", sizes_.width, Content::gain);
        if (!sizes_.tied) {
            matrix("output.weight", sizes_.width, sizes_.vocabulary, kind_.better);
        }
        return std::move(model_);
    }

  private:
    bool hybrid() const { return sizes_.delta_net.key_heads > 0; }
    std::string prefixed(std::string_view key) const {
        return std::string(sizes_.architecture) + "." + std::string(key);
    }
    void number(std::string_view key, std::int64_t value) {
        model_.keys.push_back({prefixed(key), static_cast<std::uint32_t>(value)});
    }
    void real(std::string_view key, float value) { model_.keys.push_back({prefixed(key), value}); }

    void add_keys() {
        model_.keys.push_back({"general.architecture", std::string(sizes_.architecture)});
        model_.keys.push_back(
            {"general.name", std::string(sizes_.name) + " synthetic " + std::string(kind_.name)});
        number("vocab_size", sizes_.vocabulary);
        number("context_length", kContext);
        number("embedding_length", sizes_.width);
        number("block_count", sizes_.layers);
        number("attention.head_count", sizes_.heads);
        number("attention.head_count_kv", sizes_.kv_heads);
        number("attention.key_length", sizes_.head_dim);
        number("attention.value_length", sizes_.head_dim);
        real("attention.layer_norm_rms_epsilon", kNormEpsilon);
        real("rope.freq_base", sizes_.rope_base);
        if (sizes_.ffn_rows > 0) number("feed_forward_length", sizes_.ffn_rows);
        if (sizes_.experts.count > 0) {
            number("expert_count", sizes_.experts.count);
            number("expert_used_count", sizes_.experts.used);
            number("expert_feed_forward_length", sizes_.experts.rows);
        }
        if (sizes_.experts.shared_rows > 0) {
            number("expert_shared_feed_forward_length", sizes_.experts.shared_rows);
        }
        if (!hybrid()) return;
        const DeltaNet& net = sizes_.delta_net;
        number("rope.dimension_count", sizes_.head_dim / kHybridRotation);
        number("full_attention_interval", kAttentionInterval);
        number("ssm.conv_kernel", kConvKernel);
        number("ssm.state_size", net.head_dim);
        number("ssm.group_count", net.key_heads);
        number("ssm.time_step_rank", net.value_heads);
        number("ssm.inner_size", net.value_heads * net.head_dim);
    }

    void matrix(const std::string& name, std::int64_t cols, std::int64_t rows, ElementType type,
                std::int64_t experts = 1) {
        std::vector<std::uint64_t> dims = {static_cast<std::uint64_t>(cols),
                                           static_cast<std::uint64_t>(rows)};
        if (experts > 1) dims.push_back(static_cast<std::uint64_t>(experts));
        model_.tensors.push_back({name, std::move(dims), type, Content::matrix});
    }
    void values(const std::string& name, std::int64_t count, Content content) {
        model_.tensors.push_back(
            {name, {static_cast<std::uint64_t>(count)}, ElementType::f32, content});
    }

    // As the mix called Q4_K_M has it: the outer eighths of the layers, and every third between.
    ElementType better(std::int64_t layer) const {
        const std::int64_t eighth = sizes_.layers / 8;
        const bool outer = layer < eighth || layer >= 7 * sizes_.layers / 8;
        return outer || (layer - eighth) % 3 == 2 ? kind_.better : kind_.type;
    }

    void add_layer(std::int64_t layer) {
        const std::string at = "blk." + std::to_string(layer) + ".";
        const ElementType best = better(layer);
        values(at + "attn_norm.weight", sizes_.width, Content::gain);
        if (hybrid() && (layer + 1) % kAttentionInterval != 0) {
            add_delta_net(at);
        } else {
            add_attention(at, best);
        }
        values(at + (hybrid() ? "post_attention_norm.weight" : "ffn_norm.weight"), sizes_.width,
               Content::gain);
        if (sizes_.experts.count > 0) {
            add_experts(at, best);
        } else {
            add_dense(at, best);
        }
    }

    void add_attention(const std::string& at, ElementType best) {
        const std::int64_t queries = sizes_.heads * sizes_.head_dim;
        const std::int64_t keys = sizes_.kv_heads * sizes_.head_dim;
        const std::int64_t gates = hybrid() ? queries : 0;
        matrix(at + "attn_q.weight", sizes_.width, queries + gates, kind_.type);
        matrix(at + "attn_k.weight", sizes_.width, keys, kind_.type);
        matrix(at + "attn_v.weight", sizes_.width, keys, best);
        values(at + "attn_q_norm.weight", sizes_.head_dim, Content::gain);
        values(at + "attn_k_norm.weight", sizes_.head_dim, Content::gain);
        matrix(at + "attn_output.weight", queries, sizes_.width, kind_.type);
    }

    void add_delta_net(const std::string& at) {
        const DeltaNet& net = sizes_.delta_net;
        const std::int64_t keys = net.key_heads * net.head_dim;
        const std::int64_t mixed = net.value_heads * net.head_dim;
        const std::int64_t channels = 2 * keys + mixed;
        matrix(at + "attn_qkv.weight", sizes_.width, channels, kind_.type);
        matrix(at + "attn_gate.weight", sizes_.width, mixed, kind_.type);
        if (sizes_.architecture == "qwen3next") {
            matrix(at + "ssm_ba.weight", sizes_.width, 2 * net.value_heads, kind_.type);
        } else {
            matrix(at + "ssm_beta.weight", sizes_.width, net.value_heads, kind_.type);
            matrix(at + "ssm_alpha.weight", sizes_.width, net.value_heads, kind_.type);
        }
        model_.tensors.push_back(
            {at + "ssm_conv1d.weight",
             {static_cast<std::uint64_t>(kConvKernel), static_cast<std::uint64_t>(channels)},
             ElementType::f32,
             Content::taps});
        values(at + "ssm_dt.bias", net.value_heads, Content::dt_bias);
        values(at + "ssm_a", net.value_heads, Content::decay);
        values(at + "ssm_norm.weight", net.head_dim, Content::gain);
        matrix(at + "ssm_out.weight", mixed, sizes_.width, kind_.type);
    }

    void add_dense(const std::string& at, ElementType best) {
        matrix(at + "ffn_gate.weight", sizes_.width, sizes_.ffn_rows, kind_.type);
        matrix(at + "ffn_up.weight", sizes_.width, sizes_.ffn_rows, kind_.type);
        matrix(at + "ffn_down.weight", sizes_.ffn_rows, sizes_.width, best);
    }

    void add_experts(const std::string& at, ElementType best) {
        const Experts& experts = sizes_.experts;
        const std::int64_t width = sizes_.width;
        matrix(at + "ffn_gate_inp.weight", width, experts.count, ElementType::f32);
        matrix(at + "ffn_gate_exps.weight", width, experts.rows, kind_.type, experts.count);
        matrix(at + "ffn_up_exps.weight", width, experts.rows, kind_.type, experts.count);
        matrix(at + "ffn_down_exps.weight", experts.rows, width, best, experts.count);
        if (experts.shared_rows == 0) return;
        values(at + "ffn_gate_inp_shexp.weight", width, Content::matrix);
        matrix(at + "ffn_gate_shexp.weight", width, experts.shared_rows, kind_.type);
        matrix(at + "ffn_up_shexp.weight", width, experts.shared_rows, kind_.type);
        matrix(at + "ffn_down_shexp.weight", experts.shared_rows, width, best);
    }

    const Sizes& sizes_;
    const Kind& kind_;
    SyntheticModel model_;
};

std::string full_name(const Sizes& sizes, const Kind& kind) {
    return std::string(sizes.name) + ":" + std::string(kind.name);
}

}  // namespace

std::size_t SyntheticTensor::bytes() const {
    const BlockShape block = block_shape(type);
    const std::uint64_t elements =
        std::accumulate(dims.begin(), dims.end(), std::uint64_t{1}, std::multiplies<>());
    return static_cast<std::size_t>(elements) / block.elements * block.bytes;
}

std::uint64_t SyntheticModel::weights_bytes() const {
    std::uint64_t sum = 0;
    for (const SyntheticTensor& tensor : tensors) sum += tensor.bytes();
    return sum;
}

Result<SyntheticModel> synthetic_model(std::string_view name) {
    std::string allowed;
    for (const Sizes& sizes : kSizes) {
        for (const Kind& kind : kKinds) {
            const std::string full = full_name(sizes, kind);
            if (full == name) return Draft(sizes, kind).whole();
            if (sizes.listed) allowed += (allowed.empty() ? "" : ", ") + full;
        }
    }
    return refuse_option("synthetic model '" + std::string(name) + "' is not one of: " + allowed);
}

std::string synthetic_list() {
    std::string out;
    for (const Sizes& sizes : kSizes) {
        for (const Kind& kind : kKinds) {
            if (!sizes.listed) continue;
            std::array<char, 64> line{};
            const double gb = static_cast<double>(Draft(sizes, kind).whole().weights_bytes()) / 1e9;
            (void)std::snprintf(line.data(), line.size(), "%-26s %7.2f GB\n",
                                full_name(sizes, kind).c_str(), gb);
            out += line.data();
        }
    }
    return out;
}

std::uint32_t ggml_type_of(ElementType type) {
    constexpr std::uint32_t kIds[] = {0, 1, 30, 8, 2, 12, 13, 14, 20, 21, 39, 40};
    return kIds[static_cast<std::size_t>(type)];
}

}  // namespace strata::bench
