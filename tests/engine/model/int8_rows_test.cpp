// Models with int8 K/V rows against the logits that another implementation computed in f32, and
// against the recorded answers of the demo model.
//
// What their rounding may cost: an int8 element is off by up to 1/254 of the largest of its head,
// evenly spread, an f16 element by up to 2^-11 of itself, a quarter to a half of that on average.
// The largest of a head of 64 to 128 elements is about 2.5 times their root mean square, so that
// int8 errors are about 40 times those of f16, and small errors of rows are errors of logits in
// proportion. f16 rows cost these models up to 0.006.
#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/engine/cuda/route_spy.hpp"
#include "tests/engine/model/model_fixture.hpp"

using namespace strata;
using namespace strata::model_fixture;

namespace {

constexpr std::int64_t kChunk = 512;
constexpr double kDifferenceMax = 0.25;
constexpr double kMedianMax = 0.15;
// The demo model's tokens are certain: what it does not know by more than this is not asked for.
constexpr double kDemoMarginMin = 0.5;

const std::vector<std::string> kModels = {"llama",      "qwen2",   "qwen3",      "qwen3_moe",
                                          "qwen3_next", "qwen3_5", "qwen3_5_moe"};

struct Spied {
    explicit Spied(const std::string& name, KvType kv_type) {
        auto made = make_cpu_device({2, "auto", false});
        REQUIRE(made.ok());
        device = std::make_unique<RouteSpyDevice>(std::move(*made));
        auto loaded = load_runner(*device,
                                  {.model_path = STRATA_REFERENCE_DIR "/" + name + "/model.gguf",
                                   .kv_type = kv_type,
                                   .chunk_tokens = kChunk},
                                  {});
        if (!loaded.ok()) FAIL(loaded.error().text);
        runner = std::move(*loaded);
    }
    std::unique_ptr<RouteSpyDevice> device;
    std::unique_ptr<Runner> runner;
};

// Differences at the recorded positions of a prompt, up to where a token took another expert: from
// there on the logits are those of another path. Reads on greedily where none did.
std::vector<double> check_prompt(const Spied& model, const Spied& precise, const Recorded& prompt) {
    model.device->chosen().clear();
    precise.device->chosen().clear();
    Conversation reference(*precise.runner, prompt.ids.size());
    read_recorded(reference, prompt, kChunk, [](auto, auto, auto) {});
    Conversation conversation(*model.runner, prompt.ids.size() + prompt.continuation.size());
    std::vector<double> out;
    bool same_path = true;
    const std::vector<float> logits =
        read_recorded(conversation, prompt, kChunk, [&](auto position, auto got, auto wanted) {
            same_path = !other_expert_until(static_cast<Position>(position), model.device->chosen(),
                                            precise.device->chosen());
            if (same_path) out.push_back(largest_difference(got, wanted));
        });
    if (same_path) check_continuation(conversation, prompt, logits, 2 * kDifferenceMax);
    return out;
}

}  // namespace

TEST_CASE("int8 rows keep the logits of every architecture within their rounding") {
    for (const std::string& name : kModels) {
        INFO(name);
        const Spied model(name, KvType::int8);
        const Spied precise(name, KvType::f32);
        std::vector<double> all;
        for (const Recorded& prompt :
             reference_prompts(STRATA_REFERENCE_DIR "/" + name + "/reference.json")) {
            const std::vector<double> some = check_prompt(model, precise, prompt);
            all.insert(all.end(), some.begin(), some.end());
        }
        REQUIRE(all.size() >= 3);
        std::sort(all.begin(), all.end());
        CHECK(all[all.size() / 2] <= kMedianMax);
        CHECK(all.back() <= kDifferenceMax);
    }
}

TEST_CASE("the demo model writes its recorded answers with int8 rows") {
    const Loaded demo = load(kDemoModel, KvType::int8, kChunk);
    for (const Recorded& prompt : demo_prompts()) {
        INFO(prompt.name);
        CHECK(prompt.certain_steps(kDemoMarginMin) >= 3);
        Conversation conversation(*demo.runner, prompt.ids.size() + prompt.continuation.size());
        check_continuation(conversation, prompt, conversation.read(prompt.ids, kChunk),
                           kDemoMarginMin);
    }
}
