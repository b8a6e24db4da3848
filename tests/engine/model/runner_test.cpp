// Loading a model: what a file must have, what it may have, what is refused; on tiny models written
// here.
#include "strata/model/runner.hpp"

#include <algorithm>
#include <functional>
#include <span>

#include <catch2/catch.hpp>

#include "strata/backend/device.hpp"
#include "tests/engine/model/gguf_bytes.hpp"

using namespace strata;
using Catch::Contains;

namespace {

constexpr std::uint64_t kWidth = 32;
constexpr std::uint64_t kVocabulary = 24;
constexpr std::uint64_t kHidden = 40;
constexpr std::uint64_t kHeadDim = 16;
constexpr std::uint32_t kF32 = 0;

// Numbers of a tensor follow from its name: two files agree where their tensors do.
std::vector<float> values_of(const std::string& name, std::uint64_t count) {
    std::uint64_t bits = 1469598103934665603ULL;  // FNV-1a
    for (const char c : name) bits = (bits ^ static_cast<unsigned char>(c)) * 1099511628211ULL;
    std::vector<float> out;
    for (std::uint64_t i = 0; i < count; ++i) {
        bits = bits * 6364136223846793005ULL + 1442695040888963407ULL;
        out.push_back(static_cast<float>(bits >> 40) / static_cast<float>(1 << 23) - 1.0F);
    }
    return out;
}

test::Bytes bytes_of(const std::vector<float>& values) {
    const auto raw = std::as_bytes(std::span<const float>(values));
    return {raw.begin(), raw.end()};
}

struct Tensor {
    std::string name;
    std::vector<std::uint64_t> dims;
    std::vector<float> values;
};

// A model file as a list that a test may change before it is written.
struct TinyModel {
    std::string architecture;
    std::vector<std::pair<std::string, std::uint32_t>> keys;
    std::vector<Tensor> tensors;

    TinyModel& add(const std::string& name, const std::vector<std::uint64_t>& dims) {
        std::uint64_t count = 1;
        for (const std::uint64_t dim : dims) count *= dim;
        tensors.push_back({name, dims, values_of(name, count)});
        return *this;
    }
    TinyModel& remove(const std::string& name) {
        const auto same = [&](const Tensor& one) { return one.name == name; };
        REQUIRE(std::erase_if(tensors, same) == 1);
        return *this;
    }
    Tensor& tensor(const std::string& name) {
        const auto same = [&](const Tensor& one) { return one.name == name; };
        return *std::find_if(tensors.begin(), tensors.end(), same);
    }
    test::Bytes bytes() const {
        test::GgufFile file;
        file.text("general.architecture", architecture);
        for (const auto& [key, value] : keys) file.u32(architecture + "." + key, value);
        file.f32(architecture + ".attention.layer_norm_rms_epsilon", 1.0e-5F);
        std::vector<std::string> tokens;
        for (std::uint64_t i = 0; i < kVocabulary; ++i) tokens.push_back("t" + std::to_string(i));
        file.texts("tokenizer.ggml.tokens", tokens);
        file.u32("tokenizer.ggml.eos_token_id", 1);
        for (const Tensor& one : tensors) {
            file.tensor(one.name, one.dims, kF32, bytes_of(one.values));
        }
        return file.bytes();
    }
};

TinyModel frame(const std::string& architecture, std::uint32_t blocks) {
    TinyModel model;
    model.architecture = architecture;
    model.keys = {{"block_count", blocks},
                  {"context_length", 64},
                  {"embedding_length", kWidth},
                  {"feed_forward_length", kHidden},
                  {"attention.head_count", 2},
                  {"attention.head_count_kv", 1},
                  {"attention.key_length", kHeadDim},
                  {"attention.value_length", kHeadDim}};
    model.add("token_embd.weight", {kWidth, kVocabulary});
    model.add("output_norm.weight", {kWidth});
    model.add("output.weight", {kWidth, kVocabulary});
    return model;
}

void add_attention(TinyModel& model, const std::string& block, std::uint64_t query_rows) {
    model.add(block + "attn_norm.weight", {kWidth});
    model.add(block + "attn_q.weight", {kWidth, query_rows});
    model.add(block + "attn_k.weight", {kWidth, kHeadDim});
    model.add(block + "attn_v.weight", {kWidth, kHeadDim});
    model.add(block + "attn_output.weight", {2 * kHeadDim, kWidth});
}

void add_dense(TinyModel& model, const std::string& block, const std::string& norm) {
    model.add(block + norm, {kWidth});
    model.add(block + "ffn_gate.weight", {kWidth, kHidden});
    model.add(block + "ffn_up.weight", {kWidth, kHidden});
    model.add(block + "ffn_down.weight", {kHidden, kWidth});
}

TinyModel llama() {
    TinyModel model = frame("llama", 1);
    add_attention(model, "blk.0.", 2 * kHeadDim);
    add_dense(model, "blk.0.", "ffn_norm.weight");
    return model;
}

TinyModel qwen3_moe() {
    TinyModel model = frame("qwen3moe", 1);
    model.keys.insert(
        model.keys.end(),
        {{"expert_count", 3}, {"expert_used_count", 2}, {"expert_feed_forward_length", 8}});
    add_attention(model, "blk.0.", 2 * kHeadDim);
    model.add("blk.0.attn_q_norm.weight", {kHeadDim});
    model.add("blk.0.attn_k_norm.weight", {kHeadDim});
    model.add("blk.0.ffn_norm.weight", {kWidth});
    model.add("blk.0.ffn_gate_inp.weight", {kWidth, 3});
    model.add("blk.0.ffn_gate_exps.weight", {kWidth, 8, 3});
    model.add("blk.0.ffn_up_exps.weight", {kWidth, 8, 3});
    model.add("blk.0.ffn_down_exps.weight", {8, kWidth, 3});
    return model;
}

// One delta net (1 key head, 2 value heads of 8), one attention layer.
TinyModel qwen35() {
    TinyModel model = frame("qwen35", 2);
    model.keys.insert(model.keys.end(), {{"ssm.conv_kernel", 4},
                                         {"ssm.state_size", 8},
                                         {"ssm.group_count", 1},
                                         {"ssm.time_step_rank", 2},
                                         {"ssm.inner_size", 16},
                                         {"full_attention_interval", 2},
                                         {"rope.dimension_count", 8}});
    model.add("blk.0.attn_norm.weight", {kWidth});
    model.add("blk.0.attn_qkv.weight", {kWidth, 32});
    model.add("blk.0.attn_gate.weight", {kWidth, 16});
    model.add("blk.0.ssm_beta.weight", {kWidth, 2});
    model.add("blk.0.ssm_alpha.weight", {kWidth, 2});
    model.add("blk.0.ssm_conv1d.weight", {4, 32});
    model.add("blk.0.ssm_dt.bias", {2});
    model.add("blk.0.ssm_a", {2});
    model.add("blk.0.ssm_norm.weight", {8});
    model.add("blk.0.ssm_out.weight", {16, kWidth});
    add_dense(model, "blk.0.", "post_attention_norm.weight");
    add_attention(model, "blk.1.", 4 * kHeadDim);
    model.add("blk.1.attn_q_norm.weight", {kHeadDim});
    model.add("blk.1.attn_k_norm.weight", {kHeadDim});
    add_dense(model, "blk.1.", "post_attention_norm.weight");
    for (float& a : model.tensor("blk.0.ssm_a").values) a = -0.5F;
    return model;
}

struct Opened {
    test::ScratchFolder folder;
    std::unique_ptr<Device> device = make_cpu_device({1, "auto"}).value();
    RunnerOptions options;
    std::function<void(std::uint64_t, std::uint64_t)> progress;

    explicit Opened(const TinyModel& model) {
        options.model_path = folder.write("tiny.gguf", model.bytes());
        options.kv_type = KvType::f32;
        options.chunk_tokens = 16;
    }
    Result<std::unique_ptr<Runner>> load() { return load_runner(*device, options, progress); }
    std::string refusal() {
        const auto runner = load();
        REQUIRE_FALSE(runner.ok());
        return runner.error().text;
    }
};

std::vector<float> logits_of(const TinyModel& model) {
    Opened opened(model);
    const auto runner = opened.load();
    if (!runner.ok()) FAIL(runner.error().text);
    const Geometry& geometry = (*runner)->geometry();
    const auto page = opened.device->allocate(geometry.page_bytes());
    REQUIRE(page.ok());
    Buffer state;
    if (geometry.recurrent()) state = *opened.device->allocate(geometry.state_bytes());
    void* const pages[] = {page->address()};
    const TokenIds ids = {3, 17, 4, 9, 9, 20, 1};
    std::vector<float> logits(kVocabulary);
    (*runner)->forward({pages, state.address()}, 0, ids, logits);
    return logits;
}

}  // namespace

TEST_CASE("a missing tensor is refused by its name") {
    TinyModel model = llama();
    Opened opened(model.remove("blk.0.attn_k.weight"));
    CHECK_THAT(opened.refusal(), Contains("blk.0.attn_k.weight") && Contains("tiny.gguf"));
}

TEST_CASE("what the file lacks is known before a weight is read") {
    for (const std::string last : {"blk.0.ffn_down.weight", "output.weight"}) {
        TinyModel model = llama();
        if (last == "output.weight") model.tensor(last).dims = {kWidth, kVocabulary / 2};
        if (last == "output.weight") model.tensor(last).values.resize(kWidth * kVocabulary / 2);
        if (last != "output.weight") model.remove(last);
        Opened opened(model);
        int calls = 0;
        opened.progress = [&](std::uint64_t, std::uint64_t) { ++calls; };
        CHECK_THAT(opened.refusal(), Contains(last));
        CHECK(calls == 0);
    }
}

TEST_CASE("options that do not fit the file are refused as options before a weight is read") {
    Opened opened(llama());
    int calls = 0;
    opened.progress = [&](std::uint64_t, std::uint64_t) { ++calls; };
    opened.options.turn_token = kVocabulary;
    CHECK_THAT(opened.refusal(), Contains("turn-token is 24") && Contains("0 to 23"));
    CHECK(opened.load().error().kind == RefusalKind::bad_option);
    opened.options.turn_token = kVocabulary - 1;
    opened.options.max_context = 65;
    CHECK(opened.load().error().kind == RefusalKind::bad_option);
    CHECK(calls == 0);
    opened.options.max_context = 64;
    CHECK(opened.load().ok());
    CHECK(Opened(llama().remove("output_norm.weight")).load().error().kind == RefusalKind::refused);
}

TEST_CASE("a tensor of another shape than the configuration says is refused by its name") {
    TinyModel model = llama();
    model.remove("blk.0.ffn_down.weight").add("blk.0.ffn_down.weight", {kHidden, kWidth - 1});
    CHECK_THAT(Opened(model).refusal(), Contains("blk.0.ffn_down.weight"));
}

TEST_CASE("a model without a head of its own uses the embedding") {
    TinyModel tied = llama();
    tied.remove("output.weight");
    TinyModel copied = llama();
    copied.tensor("output.weight").values = copied.tensor("token_embd.weight").values;
    CHECK(logits_of(tied) == logits_of(copied));
    CHECK(logits_of(tied) != logits_of(llama()));
}

TEST_CASE("biases that a file has take part and biases without support are refused") {
    TinyModel biased = llama();
    CHECK(logits_of(biased.add("blk.0.attn_v.bias", {kHeadDim})) != logits_of(llama()));
    TinyModel zero = llama();
    zero.add("blk.0.attn_v.bias", {kHeadDim}).add("blk.0.attn_output.bias", {kWidth});
    for (float& value : zero.tensor("blk.0.attn_v.bias").values) value = 0.0F;
    for (float& value : zero.tensor("blk.0.attn_output.bias").values) value = 0.0F;
    CHECK(logits_of(zero) == logits_of(llama()));
    TinyModel refused = llama();
    CHECK_THAT(Opened(refused.add("blk.0.ffn_up.bias", {kHidden})).refusal(),
               Contains("blk.0.ffn_up.bias"));
}

TEST_CASE("gate and up of the experts may come fused") {
    TinyModel fused = qwen3_moe();
    const std::vector<float> gate = fused.tensor("blk.0.ffn_gate_exps.weight").values;
    const std::vector<float> up = fused.tensor("blk.0.ffn_up_exps.weight").values;
    fused.remove("blk.0.ffn_gate_exps.weight").remove("blk.0.ffn_up_exps.weight");
    fused.add("blk.0.ffn_gate_up_exps.weight", {kWidth, 16, 3});
    std::vector<float>& both = fused.tensor("blk.0.ffn_gate_up_exps.weight").values;
    both.clear();
    const std::ptrdiff_t size = kWidth * 8;
    for (std::ptrdiff_t expert = 0; expert < 3; ++expert) {
        both.insert(both.end(), gate.begin() + expert * size, gate.begin() + (expert + 1) * size);
        both.insert(both.end(), up.begin() + expert * size, up.begin() + (expert + 1) * size);
    }
    CHECK(logits_of(fused) == logits_of(qwen3_moe()));
}

TEST_CASE("layers for several tokens at once are tolerated and left out") {
    const std::vector<float> plain = logits_of(qwen35());
    TinyModel with_key = qwen35();
    with_key.keys[0].second = 3;  // block_count counts them
    with_key.keys.emplace_back("nextn_predict_layers", 1);
    CHECK(logits_of(with_key) == plain);  // the key is there, the tensors are not
    TinyModel with_tensors = with_key;
    with_tensors.add("blk.2.nextn.eh_proj.weight", {2 * kWidth, kWidth});
    with_tensors.add("blk.2.nextn.enorm.weight", {kWidth});
    add_attention(with_tensors, "blk.2.", 4 * kHeadDim);
    CHECK(logits_of(with_tensors) == plain);
    Opened opened(with_tensors);
    const auto runner = opened.load();
    REQUIRE(runner.ok());
    CHECK((*runner)->geometry().layers ==
          std::vector<LayerKind>{LayerKind::recurrent, LayerKind::attention});
}

TEST_CASE("the fused projection of early qwen3next files is refused by its name") {
    TinyModel model = qwen35();
    model.architecture = "qwen3next";
    model.keys.insert(
        model.keys.end(),
        {{"expert_count", 3}, {"expert_used_count", 2}, {"expert_feed_forward_length", 8}});
    model.remove("blk.0.attn_qkv.weight").remove("blk.0.attn_gate.weight");
    model.add("blk.0.ssm_in.weight", {kWidth, 48});
    CHECK_THAT(Opened(model).refusal(), Contains("blk.0.ssm_in.weight") && Contains("attn_qkv"));
}

TEST_CASE("a runner refuses chunks and contexts that it cannot have") {
    Opened opened(llama());
    opened.options.chunk_tokens = 0;
    CHECK_THAT(opened.refusal(), Contains("chunk of 0 tokens"));
    opened.options.chunk_tokens = 1'000'000;
    CHECK_THAT(opened.refusal(), Contains("1000000") && Contains("16384"));
    opened.options.chunk_tokens = 16;
    opened.options.max_context = 65;
    CHECK_THAT(opened.refusal(), Contains("65") && Contains("64"));
    opened.options.max_context = 64;
    CHECK(opened.load().ok());
}

TEST_CASE("a pass asks its watch between parts and stops computing when told") {
    const TinyModel model = qwen35();
    Opened opened(model);
    const auto runner = opened.load();
    REQUIRE(runner.ok());
    const auto page = *opened.device->allocate((*runner)->geometry().page_bytes());
    const auto state = *opened.device->allocate((*runner)->geometry().state_bytes());
    void* const pages[] = {page.address()};
    const std::vector<std::byte> zeros((*runner)->geometry().state_bytes());
    const auto read = [&] {
        opened.device->copy_from_host(state.address(), zeros.data(), zeros.size());
        const TokenIds ids = {3, 17, 4, 9, 9, 20, 1};
        std::vector<float> logits(kVocabulary, -7.0F);
        const bool whole = (*runner)->forward({pages, state.address()}, 0, ids, logits);
        return std::pair(whole, logits);
    };
    int asked = 0;
    (*runner)->watch([&] {
        ++asked;
        return true;
    });
    CHECK(read() == std::pair(true, logits_of(model)));
    CHECK(asked == 4);  // two layers of two parts
    for (int parts = 1; parts <= 4; ++parts) {
        asked = 0;
        (*runner)->watch([&] { return ++asked < parts; });
        CHECK(read() == std::pair(false, std::vector<float>(kVocabulary, -7.0F)));
        CHECK(asked == parts);
    }
    (*runner)->watch({});
    CHECK(read() == std::pair(true, logits_of(model)));
}

TEST_CASE("loading reports its progress from little to all bytes") {
    Opened opened(llama());
    std::vector<std::uint64_t> done;
    std::uint64_t all = 0;
    opened.progress = [&](std::uint64_t bytes, std::uint64_t total) {
        done.push_back(bytes);
        all = total;
    };
    const auto runner = opened.load();
    REQUIRE(runner.ok());
    CHECK(done.size() > 5);
    CHECK(done.front() == 0);
    CHECK(std::is_sorted(done.begin(), done.end()));
    CHECK(done.back() == all);
    CHECK(all == (*runner)->geometry().weights_bytes);
    CHECK((*runner)->vocabulary().end_ids == TokenIds{1});
    CHECK((*runner)->vocabulary().model_id.size() == 32);
}
