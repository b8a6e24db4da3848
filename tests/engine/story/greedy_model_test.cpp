// Greedy answers of real models through the engine: the same ids whether the device finds the best
// token or the host finds it in the logits.
#include <catch2/catch.hpp>

#include "../../support/engine_stage.hpp"
#include "tests/engine/model/model_fixture.hpp"

using namespace strata;
using namespace strata::model_fixture;

namespace {

constexpr std::int64_t kTokens = 24;
constexpr std::int64_t kChunk = 64;

struct Answer : tests::NoEvents {
    void token(TokenId id, const std::optional<TokenReport>& report) override {
        ids.push_back(id);
        if (report) best.push_back(report->top.at(0).token);
    }
    TokenIds ids;
    TokenIds best;  // as the reports have it
};

Answer answer(const std::string& path, const TokenIds& prompt, std::int32_t logprobs) {
    Loaded model = load(path, KvType::f16, kChunk);
    MappedSegments segments;
    EngineLimits limits;
    limits.context_tokens = 1024;
    limits.chunks = {kChunk, 0};
    HostMemory memory;
    memory.read = [] { return MemoryReading{std::uint64_t{1} << 40, MemoryBound::host}; };
    memory.settle = [] {};
    memory.pause = [] {};
    auto engine = make_engine(std::move(model.runner), limits, std::make_shared<StopBoard>(),
                              {&segments, std::move(memory)}, [] { return TimePoint{}; });
    REQUIRE(engine.ok());
    GenerateRequest request;
    request.id = 1;
    request.prompt = prompt;
    request.max_new = kTokens;
    request.ignore_eos = true;
    request.logprobs = logprobs;
    Answer out;
    REQUIRE((*engine)->generate(request, out).ok());
    return out;
}

void check_model(const std::string& path, const TokenIds& prompt) {
    INFO(path);
    const Answer plain = answer(path, prompt, 0);
    const Answer reported = answer(path, prompt, 1);
    CHECK(plain.ids.size() == static_cast<std::size_t>(kTokens));
    CHECK(plain.ids == reported.ids);
    CHECK(reported.ids == reported.best);
    CHECK(plain.best.empty());
}

}  // namespace

TEST_CASE("reference models answer greedily with the same ids with and without reports") {
    for (const std::string name :
         {"llama", "qwen2", "qwen3", "qwen3_moe", "qwen3_next", "qwen3_5", "qwen3_5_moe"}) {
        const std::string folder = STRATA_REFERENCE_DIR "/" + name;
        for (const Recorded& prompt : reference_prompts(folder + "/reference.json")) {
            check_model(folder + "/model.gguf", prompt.ids);
        }
    }
}

TEST_CASE("the demo model answers greedily with the same ids with and without reports") {
    check_model(kDemoModel, demo_prompts().front().ids);
}
