// Control vectors: what a file must look like, and that exactly its directions are added behind
// their layers. The model is so small that the test computes its logits by itself.
#include "engine/model/control_vector.hpp"

#include <cmath>
#include <limits>

#include <catch2/catch.hpp>

#include "strata/backend/device.hpp"
#include "strata/model/runner.hpp"
#include "tests/engine/model/gguf_bytes.hpp"

using namespace strata;
using Catch::Contains;

namespace {

constexpr std::size_t kWidth = 8;
constexpr std::size_t kVocabulary = 12;
constexpr std::size_t kHidden = 16;
constexpr std::size_t kLayers = 3;
constexpr std::size_t kWorkingLayer = 1;  // the only one that is more than a way through
constexpr double kEpsilon = 1.0e-5;
constexpr std::uint32_t kF32 = 0;
constexpr std::uint32_t kF16 = 1;

using Values = std::vector<float>;

// Smooth values between -1 and 1.
Values waves(std::size_t count, double phase) {
    Values out;
    for (std::size_t i = 0; i < count; ++i) {
        out.push_back(static_cast<float>(std::sin(phase + 1.7 * static_cast<double>(i))));
    }
    return out;
}

test::Bytes bytes_of(const Values& values) {
    const auto raw = std::as_bytes(std::span<const float>(values));
    return {raw.begin(), raw.end()};
}

struct TinyWeights {
    Values embedding = waves(kWidth * kVocabulary, 0.3);
    Values head = waves(kWidth * kVocabulary, 1.1);
    Values gate = waves(kWidth * kHidden, 2.0);
    Values up = waves(kWidth * kHidden, 2.9);
    Values down = waves(kWidth * kHidden, 4.2);
};

// llama of three layers: no attention adds anything, and of the feed-forward parts one.
test::Bytes model_bytes(const TinyWeights& weights) {
    test::GgufFile file;
    file.text("general.architecture", "llama");
    file.u32("llama.block_count", kLayers).u32("llama.context_length", 64);
    file.u32("llama.embedding_length", kWidth).u32("llama.feed_forward_length", kHidden);
    file.u32("llama.attention.head_count", 1).u32("llama.attention.head_count_kv", 1);
    file.f32("llama.attention.layer_norm_rms_epsilon", static_cast<float>(kEpsilon));
    std::vector<std::string> tokens;
    for (std::size_t i = 0; i < kVocabulary; ++i) tokens.push_back("t" + std::to_string(i));
    file.texts("tokenizer.ggml.tokens", tokens);
    const auto add = [&](const std::string& name, std::size_t cols, std::size_t rows,
                         const Values& values) {
        file.tensor(name, {cols, rows}, kF32, bytes_of(values));
    };
    const Values ones(kWidth, 1.0F);
    add("token_embd.weight", kWidth, kVocabulary, weights.embedding);
    add("output_norm.weight", kWidth, 1, ones);
    add("output.weight", kWidth, kVocabulary, weights.head);
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
        const std::string block = "blk." + std::to_string(layer) + ".";
        const Values square = waves(kWidth * kWidth, 0.9);
        add(block + "attn_norm.weight", kWidth, 1, ones);
        for (const char* part : {"attn_q.weight", "attn_k.weight", "attn_v.weight"}) {
            add(block + part, kWidth, kWidth, square);
        }
        add(block + "attn_output.weight", kWidth, kWidth, Values(kWidth * kWidth));
        add(block + "ffn_norm.weight", kWidth, 1, ones);
        add(block + "ffn_gate.weight", kWidth, kHidden, weights.gate);
        add(block + "ffn_up.weight", kWidth, kHidden, weights.up);
        add(block + "ffn_down.weight", kHidden, kWidth,
            layer == kWorkingLayer ? weights.down : Values(kWidth * kHidden));
    }
    return file.bytes();
}

using Doubles = std::vector<double>;

Doubles product(const Values& matrix, const Doubles& x) {
    Doubles out(matrix.size() / x.size());
    for (std::size_t row = 0; row < out.size(); ++row) {
        for (std::size_t i = 0; i < x.size(); ++i) out[row] += matrix[row * x.size() + i] * x[i];
    }
    return out;
}

Doubles normed(const Doubles& x) {
    double squares = 0;
    for (const double value : x) squares += value * value;
    const double factor = 1 / std::sqrt(squares / static_cast<double>(x.size()) + kEpsilon);
    Doubles out = x;
    for (double& value : out) value *= factor;
    return out;
}

void add_to(Doubles& x, const Doubles& more) {
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += more[i];
}

// What the model says after `token`, when directions[layer] (empty = none) is added behind a layer.
Doubles expected_logits(const TinyWeights& weights, TokenId token,
                        const std::vector<Doubles>& directions) {
    const auto start = weights.embedding.begin() + token * static_cast<std::ptrdiff_t>(kWidth);
    Doubles x(start, start + kWidth);
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
        if (layer == kWorkingLayer) {
            const Doubles gate = product(weights.gate, normed(x));
            Doubles hidden = product(weights.up, normed(x));
            for (std::size_t i = 0; i < kHidden; ++i) {
                hidden[i] *= gate[i] / (1 + std::exp(-gate[i]));
            }
            add_to(x, product(weights.down, hidden));
        }
        if (!directions[layer].empty()) add_to(x, directions[layer]);
    }
    return product(weights.head, normed(x));
}

struct Direction {
    std::string name;
    Values values;
    std::uint32_t type = kF32;
    std::vector<std::uint64_t> dims{};  // empty: one row
};

test::Bytes vector_bytes(const std::vector<Direction>& directions) {
    test::GgufFile file;
    file.text("general.architecture", "controlvector");
    for (const Direction& one : directions) {
        const auto dims =
            one.dims.empty() ? std::vector<std::uint64_t>{one.values.size()} : one.dims;
        if (one.type == kF32) file.tensor(one.name, dims, kF32, bytes_of(one.values));
        if (one.type == kF16) file.tensor(one.name, dims, kF16, 2 * one.values.size());
    }
    return file.bytes();
}

struct Stage {
    test::ScratchFolder folder;
    TinyWeights weights;
    std::unique_ptr<Device> device = make_cpu_device({1, "auto"}).value();
    std::string model = folder.write("tiny.gguf", model_bytes(weights));
    std::unique_ptr<Runner> runner;

    ControlVector vector(const std::string& name, const std::vector<Direction>& directions,
                         float scale = 1.0F) {
        return {name, folder.write(name + ".gguf", vector_bytes(directions)), scale};
    }
    Result<std::unique_ptr<Runner>> load(std::vector<ControlVector> vectors) {
        RunnerOptions options;
        options.model_path = model;
        options.kv_type = KvType::f32;
        options.chunk_tokens = 16;
        options.control_vectors = std::move(vectors);
        return load_runner(*device, options, {});
    }
    std::string refusal(const ControlVector& vector) {
        const auto loaded = load({vector});
        REQUIRE_FALSE(loaded.ok());
        CHECK(loaded.error().kind == RefusalKind::refused);
        CHECK_THAT(loaded.error().text, Contains("control vector " + vector.name));
        CHECK_THAT(loaded.error().text, Contains(vector.path));
        return loaded.error().text;
    }
    Values logits(std::optional<std::size_t> mode, const TokenIds& ids) {
        const Buffer page = device->allocate(runner->geometry().page_bytes()).value();
        void* const pages[] = {page.address()};
        Values out(kVocabulary);
        runner->steer(mode);
        REQUIRE(runner->forward({pages, nullptr}, 0, ids, out));
        return out;
    }
};

void check_near(const Values& got, const Doubles& wanted) {
    REQUIRE(got.size() == wanted.size());
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(got[i] == Approx(wanted[i]).margin(1e-4));
}

Doubles doubled(const Values& values, double factor = 1) {
    Doubles out(values.begin(), values.end());
    for (double& value : out) value *= factor;
    return out;
}

}  // namespace

TEST_CASE("a direction is added behind its own layer") {
    Stage stage;
    const Values d = waves(kWidth, 5.0);
    std::vector<ControlVector> vectors;
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
        const std::string number = std::to_string(layer);
        vectors.push_back(stage.vector("m" + number, {{"direction." + number, d}}));
    }
    stage.runner = stage.load(vectors).value();
    const Doubles off = expected_logits(stage.weights, 7, {{}, {}, {}});
    check_near(stage.logits(std::nullopt, {7}), off);
    for (std::size_t layer = 0; layer < kLayers; ++layer) {
        INFO("layer " << layer);
        std::vector<Doubles> directions(kLayers);
        directions[layer] = doubled(d);
        const Doubles wanted = expected_logits(stage.weights, 7, directions);
        REQUIRE(std::abs(wanted[0] - off[0]) > 1e-2);
        check_near(stage.logits(layer, {7}), wanted);
    }
    // Before and behind the layer that does something are two places.
    CHECK(std::abs(stage.logits(0, {7})[0] - stage.logits(1, {7})[0]) > 1e-2);
}

TEST_CASE("directions of several layers add up and the scale multiplies them") {
    Stage stage;
    const std::vector<Direction> both{{"direction.1", waves(kWidth, 5.0)},
                                      {"direction.2", waves(kWidth, 6.0)}};
    stage.runner =
        stage.load({stage.vector("plain", both), stage.vector("back", both, -0.5F)}).value();
    REQUIRE(stage.runner->steering_modes().size() == 2);
    CHECK(stage.runner->steering_modes()[1].name == "back");
    for (const auto& [mode, factor] : {std::pair<std::size_t, double>{0, 1.0}, {1, -0.5}}) {
        check_near(stage.logits(mode, {3}),
                   expected_logits(
                       stage.weights, 3,
                       {{}, doubled(both[0].values, factor), doubled(both[1].values, factor)}));
    }
    check_near(stage.logits(std::nullopt, {3}), expected_logits(stage.weights, 3, {{}, {}, {}}));
}

TEST_CASE("every row of a chunk is steered") {
    Stage stage;
    stage.runner = stage.load({stage.vector("m", {{"direction.0", waves(kWidth, 5.0)}})}).value();
    // No attention: what the last row says depends on the last token alone.
    CHECK(stage.logits(0, {1, 2, 7}) == stage.logits(0, {7}));
    // Keys of layer 1 see the direction, too: the page of a steered pass is another one.
    const auto page_of = [&](std::optional<std::size_t> mode) {
        const Buffer page = stage.device->allocate(stage.runner->geometry().page_bytes()).value();
        void* const pages[] = {page.address()};
        stage.runner->steer(mode);
        REQUIRE(stage.runner->forward({pages, nullptr}, 0, TokenIds{1, 2, 7}, {}));
        return Values(page.f32(), page.f32() + page.bytes() / sizeof(float));
    };
    const Values off = page_of(std::nullopt);
    const Values on = page_of(0);
    const std::size_t layer_floats = off.size() / kLayers;
    for (std::size_t i = 0; i < layer_floats; ++i) REQUIRE(on[i] == off[i]);
    for (std::size_t row = 0; row < 3; ++row) {
        const std::size_t at = layer_floats + row * kWidth;
        CHECK(on[at] != off[at]);
    }
}

TEST_CASE("the fingerprint says what is added and not where it came from") {
    Stage stage;
    const Values d = waves(kWidth, 5.0);
    const auto content = [&](const ControlVector& vector) {
        return read_control_vector(vector, kWidth, kLayers).value().fingerprint;
    };
    const std::string one = content(stage.vector("a", {{"direction.1", d}}));
    CHECK(one.size() == 32);
    CHECK(content(stage.vector("b", {{"direction.1", d}})) == one);
    CHECK(content(stage.vector("c", {{"direction.1", d}}, 0.5F)) != one);
    CHECK(content(stage.vector("d", {{"direction.2", d}})) != one);
    CHECK(content(stage.vector("e", {{"direction.1", waves(kWidth, 5.1)}})) != one);
    CHECK(content(stage.vector("f", {{"direction.1", d}, {"direction.2", d}})) != one);
}

TEST_CASE("a file that is no control vector of this model is refused with its fault") {
    Stage stage;
    const Values d = waves(kWidth, 5.0);
    CHECK_THAT(stage.refusal(stage.vector("deep", {{"direction.3", d}})),
               Contains("direction.3") && Contains("direction.0 to direction.2"));
    CHECK_THAT(stage.refusal(stage.vector("odd", {{"direction.01", d}})), Contains("direction.01"));
    CHECK_THAT(stage.refusal(stage.vector("other", {{"direction.1", d}, {"token_embd.weight", d}})),
               Contains("token_embd.weight"));
    CHECK_THAT(stage.refusal(stage.vector("wide", {{"direction.1", waves(9, 5.0)}})),
               Contains("9 values") && Contains("width, 8"));
    CHECK_THAT(stage.refusal(stage.vector("rows", {{"direction.1", d, kF32, {4, 2}}})),
               Contains("8 values in 2 rows"));
    CHECK_THAT(stage.refusal(stage.vector("half", {{"direction.1", d, kF16}})),
               Contains("F16") && Contains("allowed is F32"));
    CHECK_THAT(stage.refusal(stage.vector("empty", {})), Contains("no tensor"));
    Values bad = d;
    bad[3] = std::numeric_limits<float>::quiet_NaN();
    CHECK_THAT(stage.refusal(stage.vector("nan", {{"direction.1", bad}})),
               Contains("no finite number"));
    bad[3] = 1.0e38F;
    CHECK_THAT(stage.refusal(stage.vector("huge", {{"direction.1", bad}}, 1000.0F)),
               Contains("no finite number"));
}

TEST_CASE("a control vector that cannot be read is refused with its path") {
    Stage stage;
    CHECK_THAT(stage.refusal({"gone", stage.folder.path("gone.gguf"), 1}),
               Contains("No such file"));
    CHECK_THAT(stage.refusal({"folder", stage.folder.path(""), 1}), Contains("not a regular file"));
    stage.refusal({"text", stage.folder.write("text.gguf", test::Pieces().raw("hello").bytes), 1});
    test::Bytes cut = vector_bytes({{"direction.1", waves(kWidth, 5.0)}});
    cut.erase(cut.end() - 8, cut.end());
    stage.refusal({"cut", stage.folder.write("cut.gguf", cut), 1});
}
