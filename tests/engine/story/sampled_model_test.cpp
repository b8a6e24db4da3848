// Sampled answers of a model that computes, on every device: the same ids whether the device makes
// a shortlist of the row or the host looks at all of its logits.
#include <catch2/catch.hpp>

#include "../../support/engine_stage.hpp"
#include "tests/engine/backend/ops_fixture.hpp"
#include "tools/bench/synthetic/geometry.hpp"
#include "tools/bench/synthetic/image.hpp"

using namespace strata;

namespace {

constexpr std::int64_t kTokens = 24;
constexpr std::int64_t kChunk = 64;
constexpr const char* kModel = "tiny-qwen3-20k:q8_0";

// Lends the tests' device to an engine's runner.
std::unique_ptr<Engine> engine_on(Device& device, MappedSegments& segments) {
    RunnerOptions options;
    options.model_path = kModel;
    options.image = bench::map_synthetic(*bench::synthetic_model(kModel), 1).value();
    options.max_context = 512;
    options.chunk_tokens = kChunk;
    auto runner = load_runner(device, options, [](std::uint64_t, std::uint64_t) {}).value();
    EngineLimits limits;
    limits.context_tokens = 512;
    limits.chunks = {kChunk, 0};
    HostMemory memory;
    memory.read = [] { return MemoryReading{std::uint64_t{1} << 40, MemoryBound::host}; };
    memory.settle = [] {};
    memory.pause = [] {};
    auto engine = make_engine(std::move(runner), limits, std::make_shared<StopBoard>(),
                              {&segments, std::move(memory)}, [] { return TimePoint{}; });
    REQUIRE(engine.ok());
    return std::move(*engine);
}

struct Answer : tests::NoEvents {
    void token(TokenId id, const std::optional<TokenReport>&) override { ids.push_back(id); }
    TokenIds ids;
};

TokenIds answer(Engine& engine, const SamplingSettings& settings, std::int32_t logprobs) {
    GenerateRequest request;
    request.id = 1;
    for (TokenId id = 0; id < 70; ++id) request.prompt.push_back(id * 5 + 1);
    request.max_new = kTokens;
    request.ignore_eos = true;
    request.sampling = settings;
    request.logprobs = logprobs;
    Answer out;
    REQUIRE(engine.generate(request, out).ok());
    return out.ids;
}

struct Named {
    const char* name;
    SamplingSettings settings;
};
std::vector<Named> all_settings() {
    SamplingSettings warm;
    warm.temperature = 0.8;
    warm.seed = 7;
    std::vector<Named> out(8, {"temperature", warm});
    out[1].name = "top_k and top_p";
    out[1].settings.top_k = 40;
    out[1].settings.top_p = 0.95;
    out[2].name = "top_p";
    out[2].settings.top_p = 0.5;
    out[3].name = "top_p that a list does not hold";
    out[3].settings.top_p = 0.999;
    out[4].name = "min_p";
    out[4].settings.min_p = 0.2;
    out[5].name = "greedy with penalties";
    out[5].settings.temperature = 0;
    out[5].settings.repeat_penalty = 1.3;
    out[5].settings.presence_penalty = 0.4;
    out[6].name = "penalties and top_k";
    out[6].settings.top_k = 20;
    out[6].settings.repeat_penalty = 1.2;
    out[6].settings.frequency_penalty = 0.3;
    out[7].name = "penalties alone";
    out[7].settings.frequency_penalty = 0.7;
    out[7].settings.penalty_last_n = 5;
    return out;
}

}  // namespace

TEST_CASE("a model's sampled answers are the same from shortlists and from logits") {
    for (const ops_fixture::NamedDevice& on : ops_fixture::devices()) {
        MappedSegments segments;
        const auto engine = engine_on(*on.device, segments);
        TokenIds before;
        for (const Named& of : all_settings()) {
            INFO(on.name << ", " << of.name);
            const TokenIds listed = answer(*engine, of.settings, 0);
            CHECK(std::ssize(listed) == kTokens);
            CHECK(listed == answer(*engine, of.settings, 1));
            CHECK(listed == answer(*engine, of.settings, 0));
            CHECK(listed != before);
            before = listed;
        }
    }
}
