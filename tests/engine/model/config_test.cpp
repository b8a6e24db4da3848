// What metadata means: values, defaults per architecture, and a refusal for every key out of its
// range.
#include <cmath>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "engine/model/model_config.hpp"
#include "tests/engine/model/model_metadata.hpp"

using namespace strata;
using test::Metadata;
using test::metadata_of;

namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();
const std::vector<std::string> kArchitectures = {"llama",     "qwen2",  "qwen3",    "qwen3moe",
                                                 "qwen3next", "qwen35", "qwen35moe"};

Result<ModelConfig> config_from(const Metadata& metadata) {
    const auto bytes = metadata.file().bytes();
    const auto header = gguf::parse_header(bytes, bytes.size());
    REQUIRE(header);
    return read_model_config(*header);
}

ModelConfig config_of(const Metadata& metadata) {
    auto config = config_from(metadata);
    INFO((config ? std::string() : config.error().text));
    REQUIRE(config);
    return *config;
}

using Catch::Matchers::Contains;
using Change = std::function<void(Metadata&)>;

// The change must be refused with `key` and `said` in the message.
void check_refused(const std::string& architecture, const std::string& key, const std::string& said,
                   const Change& change) {
    Metadata metadata = metadata_of(architecture);
    change(metadata);
    INFO(architecture << " " << key);
    const auto config = config_from(metadata);
    REQUIRE_FALSE(config);
    CHECK_THAT(config.error().text, Contains(key) && Contains(said) && Contains("allowed"));
}

std::vector<bool> recurrent_layers(const ModelConfig& config) {
    std::vector<bool> out;
    for (const LayerKind kind : config.layers) out.push_back(kind == LayerKind::recurrent);
    return out;
}

}  // namespace

TEST_CASE("every architecture is known by its name and has its own features") {
    for (const auto& name : kArchitectures) {
        const ModelConfig config = config_of(metadata_of(name));
        INFO(name);
        CHECK(architecture_name(config.architecture) == name);
        CHECK(config.qkv_bias == (name == "qwen2"));
        CHECK(config.qk_norm == (name != "llama" && name != "qwen2"));
        const bool hybrid = name == "qwen3next" || name == "qwen35" || name == "qwen35moe";
        CHECK(config.gated_attention == hybrid);
        CHECK(config.delta_net.has_value() == hybrid);
        CHECK(config.experts.has_value() ==
              (name == "qwen3moe" || name == "qwen3next" || name == "qwen35moe"));
        CHECK((config.rope.pairing == RopePairing::interleaved) == (name == "llama"));
        CHECK(config.layers.size() == 8);
        CHECK(config.mtp_layers == 0);
    }
}

TEST_CASE("sizes come from the metadata") {
    const ModelConfig config = config_of(metadata_of("qwen3")
                                             .u32("attention.key_length", 128)
                                             .u32("attention.value_length", 128)
                                             .text("general.name", "Some name"));
    CHECK(config.name == "Some name");
    CHECK(config.vocabulary == 512);
    CHECK(config.trained_context == 4096);
    CHECK(config.width == 256);
    CHECK(config.ffn_rows == 1024);
    CHECK(config.heads == 8);
    CHECK(config.kv_heads == 2);
    CHECK(config.head_dim == 128);
    CHECK(config.rms_eps == Approx(1e-6).epsilon(1e-6));
    CHECK(config.attention_scale == Approx(1.0 / std::sqrt(128.0)));
    CHECK(config.rope.base == 1e6);
    CHECK(config.rope.dims == 128);
}

TEST_CASE("keys that may be absent have their defaults") {
    Metadata metadata = metadata_of("llama");
    metadata.without("rope.freq_base").without("attention.head_count_kv").without("vocab_size");
    metadata.texts("tokenizer.ggml.tokens", std::vector<std::string>(300, "t"));
    const ModelConfig config = config_of(metadata);
    CHECK(config.vocabulary == 300);
    CHECK(config.kv_heads == 8);
    CHECK(config.head_dim == 32);
    CHECK(config.rope.base == 10'000.0);
    CHECK(config.rope.dims == 32);
    CHECK(config.rope.scaling == RopeScaling::none);
    CHECK(config.rope.original_context == 4096);
    CHECK(config.name.empty());
    CHECK(config_of(metadata_of("llama").f32("attention.scale", 0.25F)).attention_scale == 0.25);
}

TEST_CASE("rope scaling is read with its defaults") {
    const auto linear = config_of(metadata_of("qwen2")
                                      .text("rope.scaling.type", "linear")
                                      .f32("rope.scaling.factor", 4.0F))
                            .rope;
    CHECK(linear.scaling == RopeScaling::linear);
    CHECK(linear.factor == 4.0);
    CHECK(config_of(metadata_of("qwen2").f32("rope.scaling.factor", 2.0F)).rope.scaling ==
          RopeScaling::linear);
    CHECK(
        config_of(
            metadata_of("qwen2").text("rope.scaling.type", "none").f32("rope.scaling.factor", 2.0F))
            .rope.factor == 1.0);

    Metadata metadata = metadata_of("qwen3");
    metadata.text("rope.scaling.type", "yarn").f32("rope.scaling.factor", 4.0F);
    const auto usual = config_of(metadata).rope;
    CHECK(usual.scaling == RopeScaling::yarn);
    CHECK(usual.original_context == 4096);
    CHECK(usual.attention_factor == 1.0);
    CHECK(usual.ext_factor == 1.0);
    CHECK(usual.beta_fast == 32.0);
    CHECK(usual.beta_slow == 1.0);
    CHECK(usual.yarn_log_multiplier == 0.0);
    metadata.u32("rope.scaling.original_context_length", 1024)
        .f32("rope.scaling.attn_factor", 1.5F);
    metadata.f32("rope.scaling.yarn_ext_factor", 0.5F).f32("rope.scaling.yarn_beta_fast", 16.0F);
    metadata.f32("rope.scaling.yarn_beta_slow", 2.0F)
        .f32("rope.scaling.yarn_log_multiplier", 0.25F);
    const auto given = config_of(metadata).rope;
    CHECK(given.original_context == 1024);
    CHECK(given.attention_factor == 1.5);
    CHECK(given.ext_factor == 0.5);
    CHECK(given.beta_fast == 16.0);
    CHECK(given.beta_slow == 2.0);
    CHECK(given.yarn_log_multiplier == 0.25);
}

TEST_CASE("experts are read with their defaults") {
    const auto plain = config_of(metadata_of("qwen3moe")).experts.value();
    CHECK(plain.count == 16);
    CHECK(plain.used == 4);
    CHECK(plain.rows == 128);
    CHECK(plain.shared_rows == 0);
    CHECK(plain.weight_scale == 1.0);
    CHECK(plain.normalise);
    Metadata metadata = metadata_of("qwen35moe");
    CHECK(config_of(metadata).experts->shared_rows == 128);
    metadata.u32("expert_shared_feed_forward_length", 64).f32("expert_weights_scale", 2.5F);
    metadata.flag("expert_weights_norm", false)
        .u32("expert_gating_func", 1)
        .without("feed_forward_length");
    const auto given = config_of(metadata);
    CHECK(given.experts->shared_rows == 64);
    CHECK(given.experts->weight_scale == 2.5);
    CHECK_FALSE(given.experts->normalise);
    CHECK(given.ffn_rows == 0);
    CHECK(config_of(metadata.f32("expert_weights_scale", 0.0F).u32("expert_gating_func", 0))
              .experts->weight_scale == 1.0);
}

TEST_CASE("delta net sizes and the order of value heads follow the architecture") {
    const auto net = config_of(metadata_of("qwen35")).delta_net.value();
    CHECK(net.key_heads == 2);
    CHECK(net.value_heads == 4);
    CHECK(net.key_dim == 128);
    CHECK(net.value_dim == 96);
    CHECK(net.conv_kernel == 4);
    CHECK(net.keys_width() == 256);
    CHECK(net.values_width() == 384);
    CHECK(net.conv_channels() == 896);
    CHECK(net.order == ValueHeadOrder::tiled);
    CHECK(config_of(metadata_of("qwen35moe")).delta_net->order == ValueHeadOrder::tiled);
    CHECK(config_of(metadata_of("qwen3next")).delta_net->order == ValueHeadOrder::grouped);
}

TEST_CASE("layer kinds come from the interval or from the list") {
    Metadata metadata = metadata_of("qwen35");
    CHECK(recurrent_layers(config_of(metadata)) ==
          std::vector<bool>{true, true, true, false, true, true, true, false});
    metadata.u32("full_attention_interval", 2);
    CHECK(recurrent_layers(config_of(metadata)) ==
          std::vector<bool>{true, false, true, false, true, false, true, false});
    metadata.array<std::uint8_t>("attention.recurrent_layers", 7, {0, 1, 1, 1, 1, 1, 1, 1});
    CHECK(recurrent_layers(config_of(metadata)) ==
          std::vector<bool>{false, true, true, true, true, true, true, true});
    metadata.array<std::int32_t>("attention.recurrent_layers", 5, {1, 1, 1, 1, 0, 0, 0, 0});
    CHECK(recurrent_layers(config_of(metadata)) ==
          std::vector<bool>{true, true, true, true, false, false, false, false});
    CHECK(recurrent_layers(config_of(metadata_of("qwen3").u32("full_attention_interval", 2))) ==
          std::vector<bool>(8, false));
}

TEST_CASE("blocks for draft tokens are not main layers") {
    Metadata metadata = metadata_of("qwen35").u32("block_count", 9).u32("nextn_predict_layers", 1);
    metadata.array<std::uint8_t>("attention.recurrent_layers", 7, {1, 1, 1, 0, 1, 1, 1, 0, 0});
    const ModelConfig config = config_of(metadata);
    CHECK(config.mtp_layers == 1);
    CHECK(recurrent_layers(config) ==
          std::vector<bool>{true, true, true, false, true, true, true, false});
}

TEST_CASE("per-layer arrays of one value count as that value") {
    Metadata metadata = metadata_of("llama");
    metadata.array<std::int32_t>("attention.head_count_kv", 5, std::vector<std::int32_t>(8, 4));
    CHECK(config_of(metadata).kv_heads == 4);
    check_refused("llama", "llama.attention.head_count_kv", "equal in all layers", [](Metadata& m) {
        m.array<std::int32_t>("attention.head_count_kv", 5, {4, 4, 2});
    });
    check_refused("llama", "llama.attention.head_count_kv", "not an integer",
                  [](Metadata& m) { m.array<std::int32_t>("attention.head_count_kv", 5, {}); });
}

TEST_CASE("an unknown or missing architecture is refused with the known ones") {
    const auto unknown = config_from(Metadata("gpt9"));
    REQUIRE_FALSE(unknown);
    CHECK_THAT(unknown.error().text,
               Contains("\"gpt9\"") && Contains("llama") && Contains("qwen35moe"));
    Metadata none("llama");
    none.without("general.architecture");
    CHECK_THAT(config_from(none).error().text, Contains("general.architecture"));
    none.u32("general.architecture", 3);
    CHECK_THAT(config_from(none).error().text, Contains("string"));
    Metadata name = metadata_of("llama");
    CHECK_THAT(config_from(name.u32("general.name", 3)).error().text, Contains("general.name"));
}

TEST_CASE("every required key is missed by name") {
    for (const auto& architecture : kArchitectures) {
        std::vector<std::string> required = {"context_length",
                                             "embedding_length",
                                             "block_count",
                                             "attention.head_count",
                                             "attention.layer_norm_rms_epsilon",
                                             "vocab_size"};
        const ModelConfig config = config_of(metadata_of(architecture));
        const auto also = [&](const std::vector<std::string>& more) {
            required.insert(required.end(), more.begin(), more.end());
        };
        if (config.experts)
            also({"expert_count", "expert_used_count", "expert_feed_forward_length"});
        if (!config.experts) also({"feed_forward_length"});
        if (config.delta_net)
            also({"ssm.conv_kernel", "ssm.state_size", "ssm.group_count", "ssm.time_step_rank",
                  "ssm.inner_size"});
        for (const auto& key : required) {
            check_refused(architecture, architecture + "." + key, "missing",
                          [&](Metadata& m) { m.without(key); });
        }
    }
}

namespace {

struct IntegerCase {
    const char* architecture;
    const char* key;
    std::uint32_t value;
};
const IntegerCase kOutOfRange[] = {
    {"llama", "vocab_size", 0},
    {"llama", "vocab_size", 4'194'305},
    {"llama", "context_length", 0},
    {"llama", "context_length", 16'777'217},
    {"llama", "embedding_length", 0},
    {"llama", "embedding_length", 131'073},
    {"llama", "block_count", 0},
    {"llama", "block_count", 1'025},
    {"llama", "feed_forward_length", 0},
    {"llama", "feed_forward_length", 1'048'577},
    {"llama", "attention.head_count", 0},
    {"llama", "attention.head_count", 1'025},
    {"llama", "attention.head_count_kv", 0},
    {"llama", "attention.head_count_kv", 3},
    {"llama", "attention.key_length", 0},
    {"llama", "attention.key_length", 33},
    {"llama", "attention.key_length", 1'026},
    {"llama", "attention.value_length", 64},
    {"llama", "rope.dimension_count", 0},
    {"llama", "rope.dimension_count", 7},
    {"llama", "rope.dimension_count", 34},
    {"llama", "expert_count", 8},
    {"qwen3moe", "expert_count", 0},
    {"qwen3moe", "expert_count", 4'097},
    {"qwen3moe", "expert_used_count", 0},
    {"qwen3moe", "expert_used_count", 17},
    {"qwen3moe", "expert_feed_forward_length", 0},
    {"qwen3moe", "expert_gating_func", 2},
    {"qwen3moe", "expert_gating_func", 9},
    {"qwen35moe", "expert_shared_feed_forward_length", 0},
    {"qwen35", "ssm.conv_kernel", 1},
    {"qwen35", "ssm.conv_kernel", 17},
    {"qwen35", "ssm.state_size", 0},
    {"qwen35", "ssm.state_size", 1'025},
    {"qwen35", "ssm.group_count", 0},
    {"qwen35", "ssm.group_count", 3},
    {"qwen35", "ssm.time_step_rank", 0},
    {"qwen35", "ssm.inner_size", 0},
    {"qwen35", "ssm.inner_size", 2},
    {"qwen35", "ssm.inner_size", 385},
    {"qwen35", "ssm.inner_size", 1'048'577},
    {"qwen35", "full_attention_interval", 0},
    {"qwen35", "nextn_predict_layers", 8},
};

}  // namespace

TEST_CASE("integers out of range are refused with their value") {
    for (const IntegerCase& each : kOutOfRange) {
        // ssm.group_count 3 is refused as the divisor that it is not, under the key of the value
        // heads.
        const std::string key = each.key == std::string("ssm.group_count") && each.value == 3
                                    ? "ssm.time_step_rank"
                                    : each.key;
        check_refused(each.architecture, std::string(each.architecture) + "." + key, "is",
                      [&](Metadata& m) { m.u32(each.key, each.value); });
        INFO(each.key << " " << each.value);
        const auto config = config_from(metadata_of(each.architecture).u32(each.key, each.value));
        const auto shown = key == each.key ? std::to_string(each.value) : std::string("4");
        CHECK_THAT(config.error().text, Contains("is " + shown) || Contains("inner_size"));
    }
    check_refused("llama", "llama.block_count", "not an integer",
                  [](Metadata& m) { m.i32("block_count", -4); });
    check_refused("llama", "llama.block_count", "not an integer",
                  [](Metadata& m) { m.text("block_count", "4"); });
    check_refused("llama", "llama.block_count", "not an integer",
                  [](Metadata& m) { m.f32("block_count", 4.0F); });
}

TEST_CASE("numbers out of range are refused and so is what is no number") {
    struct Case {
        const char* key;
        std::vector<float> bad;
    };
    const Case cases[] = {
        {"attention.layer_norm_rms_epsilon", {0.0F, -1e-6F, 0.5F, kNaN, kInfinity}},
        {"attention.scale", {0.0F, -1.0F, 1e6F, kNaN}},
        {"rope.freq_base", {0.0F, 1.0F, -5.0F, kNaN, kInfinity}},
        {"rope.scaling.factor", {0.0F, 0.5F, -2.0F, 1e9F, kNaN}},
        {"rope.scaling.attn_factor", {0.0F, -1.0F, kNaN, kInfinity}},
        {"rope.scaling.yarn_ext_factor", {-0.5F, 1.5F, kNaN}},
        {"rope.scaling.yarn_beta_fast", {0.0F, kNaN, kInfinity}},
        {"rope.scaling.yarn_beta_slow", {0.0F, -1.0F, kNaN}},
        {"rope.scaling.yarn_log_multiplier", {-0.5F, kNaN, kInfinity}},
        {"expert_weights_scale", {-1.0F, 1e6F, kNaN}},
    };
    for (const Case& each : cases) {
        const std::string key = std::string("qwen3moe.") + each.key;
        for (const float bad : each.bad) {
            check_refused("qwen3moe", key, "is", [&](Metadata& m) {
                m.text("rope.scaling.type", "yarn")
                    .f32("rope.scaling.factor", 2.0F)
                    .f32(each.key, bad);
            });
        }
        check_refused("qwen3moe", key, "not a float", [&](Metadata& m) {
            m.text("rope.scaling.type", "yarn").f32("rope.scaling.factor", 2.0F).u32(each.key, 1);
        });
    }
}

TEST_CASE("other faults are refused by key") {
    check_refused("qwen2", "qwen2.rope.scaling.type", "longrope",
                  [](Metadata& m) { m.text("rope.scaling.type", "longrope"); });
    check_refused("qwen2", "qwen2.rope.scaling.type", "not a string",
                  [](Metadata& m) { m.u32("rope.scaling.type", 1); });
    check_refused("qwen3moe", "qwen3moe.expert_weights_norm", "not a bool",
                  [](Metadata& m) { m.u32("expert_weights_norm", 1); });
    const auto list = [](std::vector<std::int32_t> values) {
        return [values](Metadata& m) {
            m.array<std::int32_t>("attention.recurrent_layers", 5, values);
        };
    };
    check_refused("qwen35", "qwen35.attention.recurrent_layers", "7 entries",
                  list(std::vector<std::int32_t>(7, 1)));
    check_refused("qwen35", "qwen35.attention.recurrent_layers", "9 entries",
                  list(std::vector<std::int32_t>(9, 1)));
    check_refused("qwen35", "qwen35.attention.recurrent_layers", "not an array",
                  list(std::vector<std::int32_t>(8, 2)));
    check_refused("qwen3", "qwen3.vocab_size", "at least the 600 tokens", [](Metadata& m) {
        m.texts("tokenizer.ggml.tokens", std::vector<std::string>(600, "t"));
    });
    check_refused("qwen3", "qwen3.vocab_size", "0",
                  [](Metadata& m) { m.without("vocab_size").texts("tokenizer.ggml.tokens", {}); });
}

TEST_CASE("a conversation's memory follows from the configuration") {
    const ModelConfig config = config_of(metadata_of("qwen35"));
    const Geometry half = geometry_of(config, KvType::f16);
    CHECK(half.architecture == "qwen35");
    CHECK(half.vocabulary == 512);
    CHECK(half.trained_context == 4096);
    CHECK(half.attention_layers() == 2);
    CHECK(half.recurrent_layers() == 6);
    CHECK(half.k_row_bytes == 2 * 64 * 2);
    CHECK(half.v_row_bytes == 2 * 64 * 2);
    CHECK(half.matrix_state_bytes == 4 * 128 * 96 * 4);
    CHECK(half.conv_state_bytes == 3 * 896 * 4);
    CHECK(geometry_of(config, KvType::f32).k_row_bytes == 2 * 64 * 4);
    // 128 codes, a gap of 8 bytes, 2 scales.
    const Geometry codes = geometry_of(config, KvType::int8);
    CHECK(codes.k_row_bytes == 144);
    CHECK(codes.v_row_bytes == 144);
    CHECK(codes.page_bytes() == 2 * 256 * (144 + 144));
    REQUIRE(codes.kv_choices.size() == 3);
    for (const KvChoice& choice : codes.kv_choices) {
        CHECK(choice.bytes_per_token == geometry_of(config, choice.type).kv_bytes_per_token());
    }
    const Geometry dense = geometry_of(config_of(metadata_of("llama")), KvType::f16);
    CHECK(dense.attention_layers() == 8);
    CHECK(dense.state_bytes() == 0);
}
