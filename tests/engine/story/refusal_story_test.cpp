// Requests that this model cannot answer: each refusal names the field, its value and what is
// allowed, and leaves the live conversation as it was.
#include <catch2/catch.hpp>

#include "../../support/engine_stage.hpp"

namespace strata::tests {
namespace {

constexpr FakeShape kHybrid{true, 97, 64};

struct Case {
    const char* what;
    RefusalCode code;
    std::vector<std::string> words;  // all in the text
    std::function<void(GenerateRequest&)> change;
};

std::vector<Case> cases() {
    using R = GenerateRequest;
    using C = RefusalCode;
    return {
        {"no ids", C::bad_field, {"ids"}, [](R& r) { r.prompt.clear(); }},
        {"max_new below 0",
         C::bad_field,
         {"max_new", "-1", "0 to 100"},
         [](R& r) { r.max_new = -1; }},
        {"id beyond the vocabulary",
         C::bad_token,
         {"id number 3", "97", "0 to 96"},
         [](R& r) { r.prompt[3] = 97; }},
        {"negative id", C::bad_token, {"id number 0", "-5"}, [](R& r) { r.prompt[0] = -5; }},
        {"stop id beyond the vocabulary",
         C::bad_token,
         {"stop id number 1", "97"},
         [](R& r) {
             r.stop_ids = {5, 97};
         }},
        {"one token too many",
         C::too_long,
         {"20 tokens", "81", "100"},
         [](R& r) { r.max_new = 81; }},
        {"sum that would overflow",
         C::too_long,
         {"9223372036854775807", "100"},
         [](R& r) { r.max_new = INT64_MAX; }},
        {"prompt alone too long",
         C::too_long,
         {"101 tokens", "100"},
         [](R& r) { r.prompt.resize(101, kFakeFirstText); }},
        {"root beyond the prompt",
         C::bad_field,
         {"root", "21", "0 to 20"},
         [](R& r) { r.root = 21; }},
        {"pin beyond the prompt", C::bad_field, {"pin", "21", "0 to 20"}, [](R& r) { r.pin = 21; }},
    };
}

}  // namespace

TEST_CASE("every refusal of a request names what is wrong and changes nothing") {
    EngineLimits limits = EngineStage::default_limits();
    limits.context_tokens = 100;
    EngineStage stage(kHybrid, limits);
    const TokenIds prompt = joined({turn(kFakeUser, 15, 2), assistant_opens()});
    REQUIRE(prompt.size() == 20);
    const Told before = stage.run(prompt);
    for (const Case& each : cases()) {
        INFO(each.what);
        GenerateRequest request = EngineStage::request(prompt);
        each.change(request);
        const Told told = stage.run(request);
        REQUIRE(told.refusal);
        CHECK(told.refusal->code == each.code);
        for (const std::string& word : each.words) {
            CHECK_THAT(told.refusal->text, Catch::Contains(word));
        }
        CHECK(told.events.empty());
    }
    const TokenIds next = joined({prompt, before.answer, {kFakeEnd}, assistant_opens()});
    CHECK(stage.run(next).outcome.plan.source == ResumeSource::live);
}

TEST_CASE("a request that fills the context to the last token is answered") {
    EngineLimits limits = EngineStage::default_limits();
    limits.context_tokens = 100;
    EngineStage stage(kHybrid, limits);
    const TokenIds prompt = joined({turn(kFakeUser, 15, 2), assistant_opens()});
    const Told told = stage.run(prompt, 80);
    CHECK(told.outcome.generated == 80);
    CHECK(told.answer == fake_answer(kHybrid, prompt, 80));
}

TEST_CASE("a turn token outside the vocabulary is refused at the start") {
    EngineLimits limits = EngineStage::default_limits();
    limits.turn_open = 97;
    MappedSegments segments;
    auto engine = make_engine(std::make_unique<FakeRunner>(kHybrid, std::make_shared<FakeDevice>()),
                              limits, std::make_shared<StopBoard>(), {&segments, {}});
    REQUIRE_FALSE(engine.ok());
    CHECK_THAT(engine.error().text, Catch::Contains("97") && Catch::Contains("0 to 96"));
}

TEST_CASE("a device without memory for one state is refused as such") {
    auto device = std::make_shared<FakeDevice>();
    device->limit_bytes = 10;
    MappedSegments segments;
    auto engine =
        make_engine(std::make_unique<FakeRunner>(kHybrid, device), EngineStage::default_limits(),
                    std::make_shared<StopBoard>(), {&segments, {}});
    REQUIRE_FALSE(engine.ok());
    CHECK(engine.error().kind == RefusalKind::out_of_memory);
}

TEST_CASE("a conversation that cannot grow says what is needed and free and what would fit") {
    EngineStage stage(FakeShape{false, 97, 64});
    stage.device->tells_free = true;
    const std::size_t page = stage.runner->geometry().page_bytes();
    stage.device->limit_bytes = stage.device->held_bytes() + 2 * page + page / 2;
    const auto prompt_of = [](std::int64_t tokens) {
        return joined({turn(kFakeUser, tokens - 5, 2), assistant_opens()});
    };
    REQUIRE(prompt_of(510).size() == 510);
    const Told refused = stage.run(prompt_of(513));
    REQUIRE(refused.refusal);
    CHECK(refused.refusal->code == RefusalCode::out_of_memory);
    CHECK_THAT(refused.refusal->text, Catch::Contains("f16 K/V of 513 tokens") &&
                                          Catch::Contains("free are") &&
                                          Catch::EndsWith("--max-context 512 fits"));
    CHECK(stage.run(prompt_of(510), 2).answer.size() == 2);
    const Told grown = stage.run(prompt_of(510), 6);  // writes into row 512
    CHECK(grown.outcome.finish == FinishReason::error);
    CHECK_THAT(grown.outcome.fault, Catch::EndsWith("--max-context 512 fits"));
}

}  // namespace strata::tests
