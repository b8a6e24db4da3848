// The seven architectures against logits that another implementation computed in f32 (recorded with
// the reference models): at each recorded position, and through a greedy continuation of 32 tokens.
#include <catch2/catch.hpp>

#include "tests/engine/model/model_fixture.hpp"

using namespace strata;
using namespace strata::model_fixture;

namespace {

constexpr double kLogitDifferenceMax = 1.0e-4;  // the recorded f32 itself is within 2e-5 of f64
constexpr double kCertainMargin = 2.0e-3;
constexpr std::int64_t kChunk = 512;

void check_model(const std::string& name) {
    const std::string folder = STRATA_REFERENCE_DIR "/" + name;
    const Loaded model = load(folder + "/model.gguf", KvType::f32, kChunk);
    for (const Recorded& prompt : reference_prompts(folder + "/reference.json")) {
        INFO("prompt of " << prompt.ids.size() << " tokens");
        REQUIRE(prompt.continuation.size() == 32);
        Conversation conversation(*model.runner, prompt.ids.size() + 32);
        const std::vector<float> logits = read_recorded(
            conversation, prompt, kChunk, [](std::size_t position, auto got, auto wanted) {
                INFO("position " << position);
                CHECK(largest_difference(got, wanted) <= kLogitDifferenceMax);
            });
        check_continuation(conversation, prompt, logits, kCertainMargin);
    }
}

}  // namespace

TEST_CASE("llama gives the recorded logits and continuation") {
    check_model("llama");
}

TEST_CASE("qwen2 gives the recorded logits and continuation") {
    check_model("qwen2");
}

TEST_CASE("qwen3 gives the recorded logits and continuation") {
    check_model("qwen3");
}

TEST_CASE("qwen3moe gives the recorded logits and continuation") {
    check_model("qwen3_moe");
}

TEST_CASE("qwen3next gives the recorded logits and continuation") {
    check_model("qwen3_next");
}

TEST_CASE("qwen35 gives the recorded logits and continuation") {
    check_model("qwen3_5");
}

TEST_CASE("qwen35moe gives the recorded logits and continuation") {
    check_model("qwen3_5_moe");
}
