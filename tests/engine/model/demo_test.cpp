// The demo model as people run it: Q8_0 weights, f16 K/V, greedy. Every recorded answer comes out
// token by token, as far as the recorded margins make it certain.
#include <catch2/catch.hpp>

#include "tests/engine/model/model_fixture.hpp"

using namespace strata;
using namespace strata::model_fixture;

namespace {

constexpr double kCertainMargin = 0.1;
constexpr std::int64_t kChunk = 512;

void check_prompt(Runner& runner, const Recorded& prompt) {
    Conversation conversation(runner, prompt.ids.size() + prompt.continuation.size());
    const std::vector<float> logits = conversation.read(prompt.ids, kChunk);
    check_continuation(conversation, prompt, logits, kCertainMargin);
}

}  // namespace

TEST_CASE("the demo model writes the recorded answers to all its prompts") {
    const Loaded demo = load(kDemoModel, KvType::f16, kChunk);
    const std::vector<Recorded> prompts = demo_prompts();
    REQUIRE(prompts.size() == 6);
    for (const Recorded& prompt : prompts) {
        INFO(prompt.name);
        check_prompt(*demo.runner, prompt);
    }
}

TEST_CASE("the demo model writes a recorded answer on every instruction set of this machine") {
    const Recorded prompt = demo_prompts()[2];
    for (const std::string kernels : {"scalar", "avx2", "avx512"}) {
        if (!make_cpu_device({1, kernels}).ok()) continue;
        INFO(kernels);
        const Loaded demo = load(kDemoModel, KvType::f16, kChunk, kernels);
        check_prompt(*demo.runner, prompt);
    }
}
