// The seven architectures on a CUDA device against the logits that another implementation computed
// in f32: exact within 1e-3, the fast way within what half precision costs. Needs a device.
#include <algorithm>

#include <catch2/catch.hpp>

#include "tests/engine/cuda/route_spy.hpp"
#include "tests/engine/model/model_fixture.hpp"

using namespace strata;
using namespace strata::model_fixture;

namespace {

constexpr std::int64_t kChunk = 512;
constexpr double kExactDifferenceMax = 1.0e-3;
constexpr double kFastMedianMax = 0.2;  // bf16 products
constexpr double kFastDifferenceMax = 0.4;
// What int8 rows cost these models in themselves (tests/engine/model/int8_rows_test.cpp), and a
// tenth for codes that the last bit of a number tips over.
constexpr double kInt8MedianMax = 0.165;
constexpr double kInt8DifferenceMax = 0.275;

const std::vector<std::string> kModels = {"llama",      "qwen2",   "qwen3",      "qwen3_moe",
                                          "qwen3_next", "qwen3_5", "qwen3_5_moe"};

Loaded load_model(Result<std::unique_ptr<Device>> device, const std::string& name, KvType kv_type,
                  bool spied = false) {
    Loaded out;
    if (!device.ok()) FAIL(device.error().text);
    out.device = std::move(*device);
    if (spied) out.device = std::make_unique<RouteSpyDevice>(std::move(out.device));
    const std::string path = STRATA_REFERENCE_DIR "/" + name + "/model.gguf";
    auto runner = load_runner(*out.device,
                              {.model_path = path, .kv_type = kv_type, .chunk_tokens = kChunk}, {});
    if (!runner.ok()) FAIL(runner.error().text);
    out.runner = std::move(*runner);
    return out;
}

Loaded load_on_cuda(const std::string& name, KvType kv_type, bool exact) {
    return load_model(make_cuda_device({0, exact}), name, kv_type);
}

ChosenExperts& chosen_by(const Loaded& model) {
    return static_cast<RouteSpyDevice&>(*model.device).chosen();
}

std::vector<Recorded> prompts_of_model(const std::string& name) {
    return reference_prompts(STRATA_REFERENCE_DIR "/" + name + "/reference.json");
}

// Differences at the recorded positions, the largest last. Where two experts are nearly equal, half
// precision may take the other one, and the logits are those of another path: positions behind a
// token that took other experts than on the CPU are listed and left out.
std::vector<double> check_fast(const std::string& name, const Loaded& fast, const Loaded& precise,
                               double difference_max) {
    std::vector<double> out;
    for (const Recorded& prompt : prompts_of_model(name)) {
        INFO(name << ", prompt of " << prompt.ids.size() << " tokens");
        chosen_by(fast).clear();
        chosen_by(precise).clear();
        Conversation reference(*precise.runner, prompt.ids.size());
        read_recorded(reference, prompt, kChunk, [](auto, auto, auto) {});
        Conversation conversation(*fast.runner, prompt.ids.size() + 32);
        bool same_path = true;
        const std::vector<float> logits = read_recorded(
            conversation, prompt, kChunk, [&](std::size_t position, auto got, auto wanted) {
                const double difference = largest_difference(got, wanted);
                same_path = !other_expert_until(static_cast<Position>(position), chosen_by(fast),
                                                chosen_by(precise));
                if (same_path) {
                    out.push_back(difference);
                } else {
                    WARN(name << ": position " << position << " of " << prompt.ids.size()
                              << " took other experts and is left out, difference " << difference);
                }
            });
        if (same_path) check_continuation(conversation, prompt, logits, difference_max);
    }
    std::sort(out.begin(), out.end());
    return out;
}

void check_differences(const std::string& name, const std::vector<double>& sorted,
                       double median_max, double most) {
    REQUIRE(!sorted.empty());
    WARN(name << ": median difference " << sorted[sorted.size() / 2] << ", largest "
              << sorted.back() << " of " << sorted.size() << " positions");
    CHECK(sorted[sorted.size() / 2] <= median_max);
    CHECK(sorted.back() <= most);
}

}  // namespace

TEST_CASE("a CUDA device that computes exactly gives the recorded logits and continuations") {
    for (const std::string& name : kModels) {
        const Loaded model = load_on_cuda(name, KvType::f32, true);
        for (const Recorded& prompt : prompts_of_model(name)) {
            INFO(name << ", prompt of " << prompt.ids.size() << " tokens");
            Conversation conversation(*model.runner, prompt.ids.size() + 32);
            const std::vector<float> logits = read_recorded(
                conversation, prompt, kChunk, [](std::size_t position, auto got, auto wanted) {
                    INFO("position " << position);
                    CHECK(largest_difference(got, wanted) <= kExactDifferenceMax);
                });
            check_continuation(conversation, prompt, logits, 2 * kExactDifferenceMax);
        }
    }
}

TEST_CASE("a CUDA device that computes fast stays within half precision of the recorded logits") {
    for (const std::string& name : kModels) {
        const Loaded fast = load_model(make_cuda_device({}), name, KvType::f16, true);
        const Loaded precise =
            load_model(make_cpu_device({2, "auto", true}), name, KvType::f32, true);
        check_differences(name, check_fast(name, fast, precise, kFastDifferenceMax), kFastMedianMax,
                          kFastDifferenceMax);
    }
}

TEST_CASE("int8 rows on a CUDA device cost what their rounding costs") {
    for (const std::string& name : kModels) {
        const Loaded precise =
            load_model(make_cpu_device({2, "auto", true}), name, KvType::f32, true);
        const Loaded exact = load_model(make_cuda_device({0, true}), name, KvType::int8, true);
        check_differences(name + ", exact",
                          check_fast(name, exact, precise, 2 * kInt8DifferenceMax), kInt8MedianMax,
                          kInt8DifferenceMax);
        const Loaded fast = load_model(make_cuda_device({}), name, KvType::int8, true);
        const double most = kFastDifferenceMax + kInt8DifferenceMax;
        check_differences(name + ", fast", check_fast(name, fast, precise, 2 * most),
                          kFastMedianMax + kInt8MedianMax, most);
    }
}

TEST_CASE("two runs of a CUDA device are bit-identical") {
    for (const std::string& name : kModels) {
        INFO(name);
        const Recorded prompt = prompts_of_model(name).back();
        std::vector<std::vector<float>> runs;
        for (int run = 0; run < 4; ++run) {
            const KvType type = run < 2 ? KvType::f16 : KvType::int8;
            const Loaded model = load_on_cuda(name, type, false);
            Conversation conversation(*model.runner, prompt.ids.size() + 8);
            std::vector<float> logits = conversation.read(prompt.ids, kChunk);
            for (int step = 0; step < 8; ++step) {
                const TokenId id = best_of(logits);
                logits = conversation.read({&id, 1}, 1);
            }
            runs.push_back(std::move(logits));
        }
        CHECK(runs[0] == runs[1]);
        CHECK(runs[2] == runs[3]);
    }
}

TEST_CASE("the best token that a CUDA device finds is that of its logits") {
    constexpr int kSteps = 24;
    for (const std::string& name : kModels) {
        INFO(name);
        const Loaded model = load_on_cuda(name, KvType::f16, false);
        const Recorded prompt = prompts_of_model(name).back();
        Conversation seen(*model.runner, prompt.ids.size() + kSteps);
        Conversation unseen(*model.runner, prompt.ids.size() + kSteps);
        std::vector<float> logits = seen.read(prompt.ids, kChunk);
        TokenId best = best_of(unseen.read(prompt.ids, kChunk));
        for (int step = 0; step < kSteps; ++step) {
            INFO("step " << step);
            const TokenId id = best_of(logits);
            REQUIRE(best == id);
            // In turn at first, then each kind of step several times in a row.
            logits = seen.read({&id, 1}, 1);
            best = step % 8 < 4 ? unseen.read_for_best(id) : best_of(unseen.read({&id, 1}, 1));
        }
    }
}

TEST_CASE("exact results of a CUDA device do not depend on the chunks") {
    for (const std::string& name : kModels) {
        for (const KvType type : {KvType::f16, KvType::int8}) {
            INFO(name << ", " << kv_type_name(type));
            const Loaded model = load_on_cuda(name, type, true);
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
}
