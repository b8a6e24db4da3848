// Exact mode: however a prompt is cut into chunks, every bit of the logits, of the rows and of the
// running state is the same.
#include <cstring>

#include <catch2/catch.hpp>

#include "tests/engine/model/model_fixture.hpp"

using namespace strata;
using namespace strata::model_fixture;

namespace {

constexpr std::int64_t kChunkTokensMax = 512;

// Logits after `ids`, and after each of a few more tokens: those show what was stored.
std::vector<float> read(Runner& runner, const TokenIds& ids, std::int64_t chunk) {
    constexpr std::size_t kMore = 4;
    Conversation conversation(runner, ids.size() + kMore);
    std::vector<float> all = conversation.read(ids, chunk);
    for (std::size_t i = 0; i < kMore; ++i) {
        const std::vector<float> next = conversation.read({&ids[i * 3 + 1], 1}, chunk);
        all.insert(all.end(), next.begin(), next.end());
    }
    return all;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

void check_chunkings(Runner& runner, const TokenIds& ids) {
    const std::vector<float> one_by_one = read(runner, ids, 1);
    for (const std::int64_t chunk : {7, 64, 512}) {
        INFO("chunks of " << chunk);
        CHECK(same_bits(read(runner, ids, chunk), one_by_one));
    }
}

}  // namespace

TEST_CASE("exact logits are the same bits for chunks of any size in every architecture") {
    for (const std::string name :
         {"llama", "qwen2", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_5", "qwen3_5_moe"}) {
        for (const KvType kv_type : kKvTypes) {
            INFO(name << ", K/V of " << kv_type_name(kv_type));
            const std::string folder = STRATA_REFERENCE_DIR "/" + name;
            const Loaded model =
                load(folder + "/model.gguf", kv_type, kChunkTokensMax, "auto", true);
            const TokenIds ids = reference_prompts(folder + "/reference.json")[0].ids;
            REQUIRE(ids.size() == 300);
            check_chunkings(*model.runner, ids);
        }
    }
}

TEST_CASE("exact logits are the same bits for chunks of any size with quantised weights") {
    const Loaded demo = load(kDemoModel, KvType::f16, kChunkTokensMax, "auto", true);
    const TokenIds ids = demo_prompts()[4].ids;
    REQUIRE(ids.size() == 953);
    check_chunkings(*demo.runner, ids);
}

TEST_CASE("exact mode says what the model says") {
    const Loaded exact = load(kDemoModel, KvType::f16, kChunkTokensMax, "auto", true);
    for (const Recorded& prompt : demo_prompts()) {
        Conversation conversation(*exact.runner, prompt.ids.size() + prompt.continuation.size());
        check_continuation(conversation, prompt, conversation.read(prompt.ids, kChunkTokensMax),
                           0.5);
    }
}
