// However a prompt is cut into chunks, the model ends in the same place as token by token: the same
// logits, and the same state to go on from.
#include <algorithm>
#include <cmath>
#include <initializer_list>

#include <catch2/catch.hpp>

#include "tests/engine/model/model_fixture.hpp"

using namespace strata;
using namespace strata::model_fixture;

namespace {

// Of the largest logit. Quantised weights round activations to 8 bits: where two ways to compute
// differ in the last bit of an f32, a value may fall into the next step, and 1/127 of it is the
// error.
constexpr double kExactDifferenceMax = 1.0e-4;
constexpr double kQuantisedDifferenceMax = 4.0e-2;

struct Reading {
    std::vector<float> logits;  // after the prompt
    std::vector<float> next;    // after one more token
};

Reading read(Runner& runner, const TokenIds& ids, std::int64_t chunk) {
    Conversation conversation(runner, ids.size() + 1);
    std::vector<float> logits = conversation.read(ids, chunk);
    const TokenId next_id = ids[ids.size() / 2];
    std::vector<float> next = conversation.read({&next_id, 1}, chunk);
    return {std::move(logits), std::move(next)};
}

double relative_difference(const std::vector<float>& got, const std::vector<float>& wanted) {
    double largest = 0.0;
    for (const float value : wanted)
        largest = std::max(largest, std::abs(static_cast<double>(value)));
    return largest_difference(got, std::vector<double>(wanted.begin(), wanted.end())) / largest;
}

void check_chunkings(Runner& runner, const TokenIds& ids, double difference_max,
                     std::initializer_list<std::int64_t> chunks) {
    const Reading one_by_one = read(runner, ids, 1);
    for (const std::int64_t chunk : chunks) {
        INFO("chunks of " << chunk);
        const Reading chunked = read(runner, ids, chunk);
        CHECK(relative_difference(chunked.logits, one_by_one.logits) <= difference_max);
        CHECK(relative_difference(chunked.next, one_by_one.next) <= difference_max);
    }
}

}  // namespace

TEST_CASE("chunks of any size read like single tokens in every architecture") {
    for (const std::string name :
         {"llama", "qwen2", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_5", "qwen3_5_moe"}) {
        INFO(name);
        const std::string folder = STRATA_REFERENCE_DIR "/" + name;
        const Loaded model = load(folder + "/model.gguf", KvType::f32, 300);
        const TokenIds ids = reference_prompts(folder + "/reference.json")[0].ids;
        REQUIRE(ids.size() == 300);
        check_chunkings(*model.runner, ids, kExactDifferenceMax, {2, 7, 64, 65, 256, 257, 300});
    }
}

TEST_CASE("chunks of any size read like single tokens with quantised weights and half rows") {
    const Loaded demo = load(kDemoModel, KvType::f16, 953);
    const TokenIds ids = demo_prompts()[4].ids;
    REQUIRE(ids.size() == 953);
    check_chunkings(*demo.runner, ids, kQuantisedDifferenceMax, {2, 7, 64, 65, 256, 257, 953});
}
