// The seven architectures on a CUDA device against the logits that another implementation computed
// in f32: exact within 1e-3, the fast way within what half precision costs. Needs a device.
#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/engine/model/model_fixture.hpp"

using namespace strata;
using namespace strata::model_fixture;

namespace {

constexpr std::int64_t kChunk = 512;
constexpr double kExactDifferenceMax = 1.0e-3;
constexpr double kFastMedianMax = 0.2;  // bf16 products
constexpr double kFastDifferenceMax = 0.4;
// Where two experts are nearly equal, half precision may choose the other one, and the position's
// logits are another model's. So many positions of a mixture may be left out.
constexpr double kOtherExpertShareMax = 0.05;

const std::vector<std::string> kModels = {"llama",      "qwen2",   "qwen3",      "qwen3_moe",
                                          "qwen3_next", "qwen3_5", "qwen3_5_moe"};

Loaded load_on_cuda(const std::string& name, ElementType kv_type, bool exact) {
    Loaded out;
    auto device = make_cuda_device({0, exact});
    if (!device.ok()) FAIL(device.error().text);
    out.device = std::move(*device);
    const std::string path = STRATA_REFERENCE_DIR "/" + name + "/model.gguf";
    auto runner = load_runner(*out.device, {path, kv_type, 0, kChunk}, {});
    if (!runner.ok()) FAIL(runner.error().text);
    out.runner = std::move(*runner);
    return out;
}

std::vector<Recorded> prompts_of_model(const std::string& name) {
    return reference_prompts(STRATA_REFERENCE_DIR "/" + name + "/reference.json");
}

// Differences at the recorded positions; `last` becomes the logits of the last one.
std::vector<double> differences(Conversation& conversation, const Recorded& prompt,
                                std::vector<float>& last) {
    std::vector<double> out;
    std::size_t read = 0;
    for (const auto& [position, wanted] : prompt.logits) {
        const std::span<const TokenId> ids(prompt.ids);
        last = conversation.read(ids.subspan(read, position + 1 - read), kChunk);
        read = position + 1;
        out.push_back(largest_difference(last, wanted));
    }
    return out;
}

}  // namespace

TEST_CASE("a CUDA device that computes exactly gives the recorded logits and continuations") {
    for (const std::string& name : kModels) {
        const Loaded model = load_on_cuda(name, ElementType::f32, true);
        for (const Recorded& prompt : prompts_of_model(name)) {
            INFO(name << ", prompt of " << prompt.ids.size() << " tokens");
            Conversation conversation(*model.runner, prompt.ids.size() + 32);
            std::vector<float> logits;
            for (const double difference : differences(conversation, prompt, logits)) {
                CHECK(difference <= kExactDifferenceMax);
            }
            check_continuation(conversation, prompt, logits, 2 * kExactDifferenceMax);
        }
    }
}

TEST_CASE("a CUDA device that computes fast stays within half precision of the recorded logits") {
    for (const std::string& name : kModels) {
        const Loaded model = load_on_cuda(name, ElementType::f16, false);
        std::vector<double> all;
        for (const Recorded& prompt : prompts_of_model(name)) {
            Conversation conversation(*model.runner, prompt.ids.size() + 32);
            std::vector<float> logits;
            const std::vector<double> found = differences(conversation, prompt, logits);
            all.insert(all.end(), found.begin(), found.end());
            INFO(name << ", prompt of " << prompt.ids.size() << " tokens");
            check_continuation(conversation, prompt, logits, kFastDifferenceMax);
        }
        std::sort(all.begin(), all.end());
        const auto outside =
            all.end() - std::upper_bound(all.begin(), all.end(), kFastDifferenceMax);
        WARN(name << ": median difference " << all[all.size() / 2] << ", largest " << all.back()
                  << ", " << outside << " of " << all.size() << " positions left out");
        CHECK(all[all.size() / 2] <= kFastMedianMax);
        const double share = static_cast<double>(outside) / static_cast<double>(all.size());
        const bool mixture = name == "qwen3_moe" || name == "qwen3_next" || name == "qwen3_5_moe";
        CHECK(share <= (mixture ? kOtherExpertShareMax : 0.0));
    }
}

TEST_CASE("two runs of a CUDA device are bit-identical") {
    for (const std::string& name : kModels) {
        INFO(name);
        const Recorded prompt = prompts_of_model(name).back();
        std::vector<std::vector<float>> runs;
        for (int run = 0; run < 2; ++run) {
            const Loaded model = load_on_cuda(name, ElementType::f16, false);
            Conversation conversation(*model.runner, prompt.ids.size() + 8);
            std::vector<float> logits = conversation.read(prompt.ids, kChunk);
            for (int step = 0; step < 8; ++step) {
                const TokenId id = best_of(logits);
                logits = conversation.read({&id, 1}, 1);
            }
            runs.push_back(std::move(logits));
        }
        CHECK(runs[0] == runs[1]);
    }
}

TEST_CASE("exact results of a CUDA device do not depend on the chunks") {
    for (const std::string& name : kModels) {
        INFO(name);
        const Loaded model = load_on_cuda(name, ElementType::f16, true);
        const Recorded prompt = prompts_of_model(name).back();
        Conversation whole(*model.runner, prompt.ids.size());
        const std::vector<float> wanted = whole.read(prompt.ids, kChunk);
        for (const std::int64_t chunk : {1, 7, 64}) {
            INFO("chunks of " << chunk);
            Conversation cut(*model.runner, prompt.ids.size());
            CHECK(cut.read(prompt.ids, chunk) == wanted);
        }
    }
}
