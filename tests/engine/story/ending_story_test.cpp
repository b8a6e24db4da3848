// How requests end: by a stop id, by length, by STOP, by a failure; and what the next one finds.
#include <algorithm>
#include <new>
#include <stdexcept>

#include <catch2/catch.hpp>

#include "../../support/engine_stage.hpp"

namespace strata::tests {
namespace {

constexpr FakeShape kHybrid{true, 97, 64};
constexpr FakeShape kAttention{false, 97, 64};

TokenIds long_prompt() {
    return joined({turn(kFakeUser, 300, 2), assistant_opens()});  // 305 tokens: five chunks
}

Position size(const TokenIds& ids) {
    return std::ssize(ids);
}

}  // namespace

TEST_CASE("events come in order and every chunk is told") {
    EngineStage stage(kHybrid);
    const Told told = stage.run(long_prompt(), 2);
    REQUIRE(told.events.size() == 9);
    CHECK(told.events[0] == "resume 0 cold");
    CHECK(told.events[1] == "read 64");
    CHECK(told.events[4] == "read 256");
    CHECK(told.events[5] == "read 303");  // the turn's checkpoint cuts the chunk
    CHECK(told.events[6] == "read 305");
    CHECK(told.events[7] == "token " + std::to_string(told.answer[0]));
    CHECK(told.events[8] == "token " + std::to_string(told.answer[1]));
}

TEST_CASE("an end id of the vocabulary ends the answer and is neither told nor counted") {
    EngineStage stage(kHybrid);
    const TokenIds prompt = long_prompt();
    stage.runner->script[size(prompt) + 2] = kFakeEnd;
    const Told told = stage.run(prompt, 10);
    CHECK(told.outcome.finish == FinishReason::stop);
    CHECK(told.outcome.stop_id == kFakeEnd);
    CHECK(told.outcome.generated == 2);
    CHECK(told.answer == fake_answer(kHybrid, prompt, 2));
    // Both told tokens were read: the whole answer is part of the state.
    const TokenIds next = joined({prompt, told.answer, {kFakeEnd}, assistant_opens()});
    CHECK(stage.run(next, 1).outcome.plan.reused == size(prompt) + 2);
}

TEST_CASE("ignore_eos writes the end id like any other token") {
    EngineStage stage(kHybrid);
    GenerateRequest request = EngineStage::request(long_prompt(), 5);
    request.ignore_eos = true;
    stage.runner->script[size(request.prompt) + 2] = kFakeEnd;
    const Told told = stage.run(request);
    CHECK(told.outcome.finish == FinishReason::length);
    CHECK(told.answer.size() == 5);
    CHECK(told.answer[2] == kFakeEnd);
}

TEST_CASE("a stop id of the request ends it also with ignore_eos") {
    EngineStage stage(kAttention);
    GenerateRequest request = EngineStage::request(long_prompt(), 20);
    request.ignore_eos = true;
    request.stop_ids = {55};
    stage.runner->script[size(request.prompt) + 3] = 55;
    const Told told = stage.run(request);
    CHECK(told.outcome.finish == FinishReason::stop);
    CHECK(told.outcome.stop_id == 55);
    CHECK(told.outcome.generated <= 3);
}

TEST_CASE("a stop during the prompt is seen at the next chunk and what was read is kept") {
    const FakeShape shape = GENERATE(kHybrid, kAttention);
    EngineStage stage(shape);
    const TokenIds prompt = long_prompt();
    stage.on_event = [&](const std::string& event) {
        if (event == "read 128") stage.engine->cancel(1);
    };
    const Told told = stage.run(prompt);
    CHECK(told.outcome.finish == FinishReason::cancel);
    CHECK(told.outcome.planned);
    CHECK(told.outcome.prompt_read == 128);
    CHECK(told.events.back() == "read 128");
    stage.on_event = nullptr;
    const Told again = stage.run(prompt);
    CHECK(again.outcome.plan.source == ResumeSource::live);
    CHECK(again.outcome.plan.reused == 128);
    CHECK(again.answer == fake_answer(shape, prompt, 6));
}

TEST_CASE("a stop while writing is seen at the next token and the next turn continues") {
    const FakeShape shape = GENERATE(kHybrid, kAttention);
    EngineStage stage(shape);
    const TokenIds prompt = long_prompt();
    stage.on_event = [&](const std::string& event) {
        if (event.starts_with("token")) stage.engine->cancel(std::nullopt);
    };
    const Told told = stage.run(prompt, 50);
    CHECK(told.outcome.finish == FinishReason::cancel);
    CHECK(told.outcome.generated == 1);
    stage.on_event = nullptr;
    const TokenIds next = joined({prompt, told.answer, {kFakeEnd}, assistant_opens()});
    const Told continued = stage.run(next);
    CHECK_FALSE(continued.outcome.plan.switched);
    CHECK(continued.outcome.plan.reused == size(prompt) + 1);
    CHECK(continued.answer == fake_answer(shape, next, 6));
}

TEST_CASE("a stop that came before the request began ends it before anything is touched") {
    EngineStage stage(kHybrid);
    stage.board->expect(1);
    stage.engine->cancel(1);
    const Told told = stage.run(long_prompt());
    CHECK(told.outcome.finish == FinishReason::cancel);
    CHECK_FALSE(told.outcome.planned);
    CHECK(told.events.empty());
    CHECK(stage.runner->passes.empty());
}

TEST_CASE("a stop for another request or an ended one is ignored") {
    EngineStage stage(kHybrid);
    stage.engine->cancel(1);
    stage.engine->cancel(99);
    CHECK(stage.run(long_prompt()).outcome.finish == FinishReason::length);
    stage.engine->cancel(1);
    CHECK(stage.run(long_prompt()).outcome.finish == FinishReason::length);
}

TEST_CASE("after a failed pass nothing of the conversation is believed") {
    const FakeShape shape = GENERATE(kHybrid, kAttention);
    const bool while_writing = GENERATE(false, true);
    EngineStage stage(shape);
    const TokenIds prompt = long_prompt();
    stage.runner->on_pass = [&](const FakePass& pass) {
        const bool now = while_writing ? pass.first == size(prompt) + 1 : pass.first == 128;
        if (now) throw std::runtime_error("the device stumbled");
    };
    const Told told = stage.run(prompt);
    CHECK(told.outcome.finish == FinishReason::error);
    CHECK_THAT(told.outcome.fault, Catch::Contains("the device stumbled"));
    CHECK(told.outcome.generated == (while_writing ? 2 : 0));
    CHECK(told.outcome.checkpoints == 0);
    stage.runner->on_pass = nullptr;
    const Told next = stage.run(prompt);
    CHECK(next.outcome.plan.source == ResumeSource::cold);
    CHECK(next.answer == fake_answer(shape, prompt, 6));
}

TEST_CASE("logits that are no numbers end the request and lose the conversation") {
    EngineStage stage(kHybrid);
    stage.runner->nan_logits = true;
    const Told told = stage.run(long_prompt());
    CHECK(told.outcome.finish == FinishReason::error);
    CHECK(told.answer.empty());
    stage.runner->nan_logits = false;
    CHECK(stage.run(long_prompt()).outcome.plan.source == ResumeSource::cold);
}

TEST_CASE("a prompt for which there is no memory is refused and the live conversation stays") {
    EngineStage stage(kHybrid);
    const TokenIds first = joined({turn(kFakeUser, 20, 2), assistant_opens()});
    const Told cold = stage.run(first);
    stage.device->limit_bytes = stage.device->held_bytes();
    const Told refused = stage.run(long_prompt());
    REQUIRE(refused.refusal);
    CHECK(refused.refusal->code == RefusalCode::out_of_memory);
    CHECK(refused.events.empty());
    const TokenIds next = joined({first, cold.answer, {kFakeEnd}, assistant_opens()});
    CHECK(stage.run(next).outcome.plan.source == ResumeSource::live);
}

TEST_CASE("memory that ends while writing ends the answer and keeps the conversation") {
    EngineStage stage(kHybrid);
    const TokenIds prompt = joined({turn(kFakeUser, 248, 2), assistant_opens()});  // 253 of 256
    (void)stage.run(joined({turn(kFakeUser, 3, 2), assistant_opens()}));
    stage.device->limit_bytes = stage.device->held_bytes();
    const Told told = stage.run(prompt, 10);
    CHECK(told.outcome.finish == FinishReason::error);
    CHECK(told.outcome.generated == 4);  // rows 253, 254, 255, and one that found no page
    stage.device->limit_bytes = SIZE_MAX;
    const TokenIds next = joined({prompt, told.answer, assistant_opens()});
    const Told continued = stage.run(next);
    CHECK(continued.outcome.plan.source == ResumeSource::live);
    CHECK(continued.answer == fake_answer(kHybrid, next, 6));
}

TEST_CASE("memory that ends between two steps refuses the request and the next one starts anew") {
    EngineStage stage(kHybrid);
    const TokenIds prompt = long_prompt();
    stage.on_event = [](const std::string& event) {
        if (event == "read 128") throw std::bad_alloc();
    };
    const Told told = stage.run(prompt);
    REQUIRE(told.refusal);
    CHECK(told.refusal->code == RefusalCode::out_of_memory);
    stage.on_event = nullptr;
    const Told next = stage.run(prompt);
    CHECK(next.outcome.plan.source == ResumeSource::cold);
    CHECK(next.answer == fake_answer(kHybrid, prompt, 6));
}

TEST_CASE("pages that nothing needs any more go back when the engine is idle") {
    EngineStage stage(kAttention);
    (void)stage.run(long_prompt());
    (void)stage.run(joined({turn(kFakeUser, 5, 9), assistant_opens()}));
    const std::size_t before = stage.device->held_bytes();
    REQUIRE(stage.engine->idle_wait() == std::chrono::milliseconds(2000));
    *stage.now += std::chrono::seconds(2);
    REQUIRE(stage.engine->idle_wait() == std::chrono::milliseconds(0));
    NoEvents nobody;
    stage.engine->idle_step(nobody);
    CHECK(stage.device->held_bytes() == before - stage.runner->geometry().page_bytes());
    CHECK_FALSE(stage.engine->idle_wait());
}

TEST_CASE("times are those of the clock") {
    using std::chrono::milliseconds;
    EngineStage stage(kHybrid);
    stage.runner->on_pass = [&](const FakePass& pass) { *stage.now += milliseconds(pass.tokens); };
    GenerateRequest request = EngineStage::request(long_prompt(), 3);
    request.received = *stage.now - milliseconds(7);
    const Outcome outcome = stage.run(request).outcome;
    CHECK(outcome.queue_ms == Approx(7));
    CHECK(outcome.prompt_ms == Approx(305));
    CHECK(outcome.decode_ms == Approx(2));
}

TEST_CASE("on a slow machine chunks shrink so that a stop waits at most its time") {
    using std::chrono::milliseconds;
    EngineLimits limits = EngineStage::default_limits();
    limits.chunks.time_max_ms = 250;
    EngineStage stage(kHybrid, limits);
    stage.runner->on_pass = [&](const FakePass& pass) {
        *stage.now += milliseconds(10 * pass.tokens);
    };
    (void)stage.run(long_prompt(), 1);
    const auto& passes = stage.runner->passes;
    REQUIRE(passes.size() > 10);
    std::int64_t longest = 0;
    // The first pass after the start is the one that teaches.
    for (std::size_t i = 3; i < passes.size(); ++i) longest = std::max(longest, passes[i].tokens);
    CHECK(longest <= 25);
    CHECK(longest >= 10);
}

TEST_CASE("the size of the first chunk is measured before the first request") {
    using std::chrono::milliseconds;
    auto device = std::make_shared<FakeDevice>();
    auto now = std::make_shared<TimePoint>();
    auto fake = std::make_unique<FakeRunner>(kHybrid, device);
    FakeRunner* runner = fake.get();
    runner->on_pass = [now](const FakePass& pass) { *now += milliseconds(20 * pass.tokens); };
    EngineLimits limits = EngineStage::default_limits();
    limits.chunks.time_max_ms = 250;
    MappedSegments segments;
    auto engine =
        make_engine(std::move(fake), limits, std::make_shared<StopBoard>(), {&segments, {}}, [now] {
            return *now;
        }).value();
    REQUIRE(runner->passes.size() == 2);
    NoEvents silent;
    (void)engine->generate(EngineStage::request(long_prompt(), 1), silent);
    CHECK(runner->passes[2] == FakePass{0, 8});
}

}  // namespace strata::tests
