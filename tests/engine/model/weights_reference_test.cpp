// The seven reference models through the loader: configuration, vocabulary, and every tensor with
// the shape that the transformers configuration asks for.
#include <fstream>
#include <iterator>
#include <string>

#include <boost/json.hpp>
#include <catch2/catch.hpp>

#include "engine/model/model_config.hpp"
#include "engine/model/tensor_names.hpp"
#include "engine/model/vocabulary.hpp"
#include "engine/model/weights.hpp"

using namespace strata;

namespace {

struct Reference {
    const char* name;
    Architecture architecture;
};
const Reference kReferences[] = {
    {"llama", Architecture::llama},
    {"qwen2", Architecture::qwen2},
    {"qwen3", Architecture::qwen3},
    {"qwen3_moe", Architecture::qwen3_moe},
    {"qwen3_next", Architecture::qwen3_next},
    {"qwen3_5", Architecture::qwen35},
    {"qwen3_5_moe", Architecture::qwen35_moe},
};

boost::json::object reference_of(const std::string& name) {
    std::ifstream file(STRATA_REFERENCE_DIR "/" + name + "/reference.json");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return boost::json::parse(text).as_object();
}

std::int64_t number(const boost::json::object& config, const char* key) {
    return config.at(key).as_int64();
}

std::int64_t number_or(const boost::json::object& config, const char* key, std::int64_t other) {
    return config.contains(key) ? number(config, key) : other;
}

// Looks tensors up and counts them.
class Checker {
  public:
    explicit Checker(const Weights& weights) : weights_(weights) {}
    void tensor(const std::string& name, std::initializer_list<std::int64_t> dims) {
        const auto found = weights_.find(name, dims);
        INFO(name << ": " << (found ? std::string() : found.error().text));
        REQUIRE(found);
        const BlockShape shape = block_shape(found->type);
        const auto elements = static_cast<std::size_t>(found->cols * found->rows * found->experts);
        CHECK(found->bytes.size() == elements / shape.elements * shape.bytes);
        ++count;
        bytes += found->bytes.size();
    }
    void in_block(std::size_t block, const char* part, std::initializer_list<std::int64_t> dims) {
        tensor(block_tensor(static_cast<std::int64_t>(block), part), dims);
    }
    std::size_t count = 0;
    std::uint64_t bytes = 0;

  private:
    const Weights& weights_;
};

void check_attention(Checker& check, std::size_t block, const ModelConfig& c) {
    const std::int64_t q = c.heads * c.head_dim;
    const std::int64_t kv = c.kv_heads * c.head_dim;
    check.in_block(block, "attn_q.weight", {c.width, c.gated_attention ? 2 * q : q});
    check.in_block(block, "attn_k.weight", {c.width, kv});
    check.in_block(block, "attn_v.weight", {c.width, kv});
    check.in_block(block, "attn_output.weight", {q, c.width});
    if (c.qkv_bias) {
        check.in_block(block, "attn_q.bias", {q});
        check.in_block(block, "attn_k.bias", {kv});
        check.in_block(block, "attn_v.bias", {kv});
    }
    if (c.qk_norm) {
        check.in_block(block, "attn_q_norm.weight", {c.head_dim});
        check.in_block(block, "attn_k_norm.weight", {c.head_dim});
    }
}

void check_delta_net(Checker& check, std::size_t block, const ModelConfig& c) {
    const DeltaNetConfig& net = *c.delta_net;
    check.in_block(block, "attn_qkv.weight", {c.width, net.conv_channels()});
    check.in_block(block, "attn_gate.weight", {c.width, net.values_width()});
    if (c.architecture == Architecture::qwen3_next) {
        check.in_block(block, "ssm_ba.weight", {c.width, 2 * net.value_heads});
    } else {
        check.in_block(block, "ssm_beta.weight", {c.width, net.value_heads});
        check.in_block(block, "ssm_alpha.weight", {c.width, net.value_heads});
    }
    check.in_block(block, "ssm_conv1d.weight", {net.conv_kernel, net.conv_channels()});
    check.in_block(block, "ssm_dt.bias", {net.value_heads});
    check.in_block(block, "ssm_a", {net.value_heads});
    check.in_block(block, "ssm_norm.weight", {net.value_dim});
    check.in_block(block, "ssm_out.weight", {net.values_width(), c.width});
}

void check_feed_forward(Checker& check, std::size_t block, const ModelConfig& c) {
    if (!c.experts) {
        check.in_block(block, "ffn_gate.weight", {c.width, c.ffn_rows});
        check.in_block(block, "ffn_up.weight", {c.width, c.ffn_rows});
        check.in_block(block, "ffn_down.weight", {c.ffn_rows, c.width});
        return;
    }
    const ExpertConfig& e = *c.experts;
    check.in_block(block, "ffn_gate_inp.weight", {c.width, e.count});
    check.in_block(block, "ffn_gate_exps.weight", {c.width, e.rows, e.count});
    check.in_block(block, "ffn_up_exps.weight", {c.width, e.rows, e.count});
    check.in_block(block, "ffn_down_exps.weight", {e.rows, c.width, e.count});
    if (e.shared_rows == 0) return;
    check.in_block(block, "ffn_gate_inp_shexp.weight", {c.width});
    check.in_block(block, "ffn_gate_shexp.weight", {c.width, e.shared_rows});
    check.in_block(block, "ffn_up_shexp.weight", {c.width, e.shared_rows});
    check.in_block(block, "ffn_down_shexp.weight", {e.shared_rows, c.width});
}

}  // namespace

TEST_CASE("every reference model says in its metadata what its configuration says") {
    for (const Reference& each : kReferences) {
        INFO(each.name);
        const auto weights =
            Weights::open(std::string(STRATA_REFERENCE_DIR "/") + each.name + "/model.gguf");
        REQUIRE(weights);
        const auto config = read_model_config(weights->header());
        REQUIRE(config);
        const auto wanted = reference_of(each.name).at("config").as_object();
        CHECK(config->architecture == each.architecture);
        CHECK(config->vocabulary == number(wanted, "vocab_size"));
        CHECK(config->width == number(wanted, "hidden_size"));
        CHECK(config->trained_context == number(wanted, "max_position_embeddings"));
        CHECK(config->layers.size() ==
              static_cast<std::size_t>(number(wanted, "num_hidden_layers")));
        CHECK(config->heads == number(wanted, "num_attention_heads"));
        CHECK(config->kv_heads == number(wanted, "num_key_value_heads"));
        CHECK(config->head_dim == number_or(wanted, "head_dim", config->width / config->heads));
        CHECK(config->rms_eps == Approx(wanted.at("rms_norm_eps").to_number<double>()));
        const auto& rope = wanted.at("rope_parameters").as_object();
        CHECK(config->rope.base == rope.at("rope_theta").to_number<double>());
        const double turned = rope.contains("partial_rotary_factor")
                                  ? rope.at("partial_rotary_factor").to_number<double>()
                                  : 1.0;
        CHECK(static_cast<double>(config->rope.dims) ==
              turned * static_cast<double>(config->head_dim));
        if (config->experts) {
            CHECK(config->experts->count == number(wanted, "num_experts"));
            CHECK(config->experts->used == number(wanted, "num_experts_per_tok"));
            CHECK(config->experts->rows == number(wanted, "moe_intermediate_size"));
            CHECK(config->experts->shared_rows ==
                  number_or(wanted, "shared_expert_intermediate_size", 0));
        }
        if (config->delta_net) {
            CHECK(config->delta_net->key_heads == number(wanted, "linear_num_key_heads"));
            CHECK(config->delta_net->value_heads == number(wanted, "linear_num_value_heads"));
            CHECK(config->delta_net->key_dim == number(wanted, "linear_key_head_dim"));
            CHECK(config->delta_net->value_dim == number(wanted, "linear_value_head_dim"));
            CHECK(config->layers.back() == LayerKind::attention);
            CHECK(geometry_of(*config, KvType::f16).recurrent_layers() == 3);
        }
    }
}

TEST_CASE("every tensor of every reference model has the shape that its configuration asks for") {
    for (const Reference& each : kReferences) {
        INFO(each.name);
        const auto weights =
            Weights::open(std::string(STRATA_REFERENCE_DIR "/") + each.name + "/model.gguf");
        REQUIRE(weights);
        const auto config = read_model_config(weights->header());
        REQUIRE(config);
        Checker check(*weights);
        check.tensor(std::string(kTokenEmbedding), {config->width, config->vocabulary});
        check.tensor(std::string(kOutputNorm), {config->width});
        const bool tied = !weights->contains(kOutput);
        CHECK(tied == (std::string(each.name) == "qwen2"));
        if (!tied) check.tensor(std::string(kOutput), {config->width, config->vocabulary});
        for (std::size_t block = 0; block < config->layers.size(); ++block) {
            check.in_block(block, "attn_norm.weight", {config->width});
            check.in_block(block,
                           config->delta_net ? "post_attention_norm.weight" : "ffn_norm.weight",
                           {config->width});
            if (config->layers[block] == LayerKind::attention) {
                check_attention(check, block, *config);
            } else {
                check_delta_net(check, block, *config);
            }
            check_feed_forward(check, block, *config);
        }
        CHECK(check.count == weights->header().tensors.size());
        CHECK(check.bytes == weights->tensor_bytes());
        CHECK(weights->main_type() == (config->experts ? "F16" : "F32"));
    }
}

TEST_CASE("the vocabulary of the reference models names its end and turn tokens") {
    for (const Reference& each : kReferences) {
        INFO(each.name);
        const auto weights =
            Weights::open(std::string(STRATA_REFERENCE_DIR "/") + each.name + "/model.gguf");
        REQUIRE(weights);
        const auto facts = read_vocabulary(weights->header(), 512);
        REQUIRE(facts);
        CHECK(facts->end_ids == TokenIds{511, 509});
        CHECK(facts->turn_open == 510);
        CHECK(facts->system_word == -1);
        CHECK(facts->name == "Strata reference " + std::string(each.name));
    }
}
