// A chunk that takes long by itself: it shows that it lives, it sees a STOP, and what it leaves
// when it is given up is whole.
#include <catch2/catch.hpp>

#include "../../support/engine_stage.hpp"

namespace strata::tests {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using S = ResumeSource;

constexpr FakeShape kHybrid{true, 97, 64};
constexpr FakeShape kAttention{false, 97, 64};

TokenIds long_prompt() {
    return joined({turn(kFakeUser, 300, 2), assistant_opens()});  // 305 tokens: five chunks
}

// A stage whose chunks have ten layers; the clock moves by `layer` in each of them from row `slow`
// on.
struct SlowStage : EngineStage {
    SlowStage(const FakeShape& shape, milliseconds layer, Position slow = 0) : EngineStage(shape) {
        runner->layers = 10;
        runner->on_layer = [this, layer, slow](const FakePass& pass, std::int64_t number) {
            if (pass.first < slow) return;
            *now += layer;
            if (in_layer) in_layer(pass, number);
        };
    }
    std::function<void(const FakePass&, std::int64_t)> in_layer;
};

}  // namespace

TEST_CASE("a chunk that takes long tells its progress at least every five seconds") {
    SlowStage stage(GENERATE(kHybrid, kAttention), milliseconds(2400));
    TimePoint last = *stage.now;
    std::vector<std::string> first_chunk;
    bool in_first = true;
    stage.on_event = [&](const std::string& event) {
        CHECK(*stage.now - last <= seconds(5));
        last = *stage.now;
        if (event == "read 64") in_first = false;
        if (in_first) first_chunk.push_back(event);
    };
    const TokenIds prompt = long_prompt();
    const Told told = stage.run(prompt, 1);
    CHECK(told.outcome.finish == FinishReason::length);
    CHECK(told.outcome.prompt_read == std::ssize(prompt));
    // 24 s of one chunk: while it is not whole, the position is the one before it.
    CHECK(first_chunk.size() >= 5);
    CHECK(first_chunk.front() == "resume 0 cold");
    for (std::size_t i = 1; i < first_chunk.size(); ++i) CHECK(first_chunk[i] == "read 0");
    CHECK(std::count(told.events.begin(), told.events.end(), "read 64") > 1);
}

TEST_CASE("a chunk of the usual length tells its progress once") {
    SlowStage stage(kHybrid, milliseconds(20));
    const Told told = stage.run(long_prompt(), 1);
    CHECK(std::count(told.events.begin(), told.events.end(), "read 64") == 1);
    CHECK(std::count(told.events.begin(), told.events.end(), "read 0") == 0);
}

TEST_CASE("tokens that take long are written without progress lines between them") {
    SlowStage stage(kHybrid, milliseconds(2400), std::ssize(long_prompt()));
    const Told told = stage.run(long_prompt(), 3);
    const auto first = std::find(told.events.begin(), told.events.end(),
                                 "token " + std::to_string(told.answer.at(0)));
    CHECK(told.events.end() - first == 3);
}

TEST_CASE("a stop inside a long chunk of an attention-only model keeps what was whole") {
    SlowStage stage(kAttention, milliseconds(400), 128);
    const TokenIds prompt = long_prompt();
    stage.in_layer = [&](const FakePass&, std::int64_t layer) {
        if (layer == 4) stage.engine->cancel(1);
    };
    const TimePoint began = *stage.now;
    const Told told = stage.run(prompt);
    CHECK(told.outcome.finish == FinishReason::cancel);
    CHECK(told.outcome.prompt_read == 128);
    CHECK(*stage.now - began <= milliseconds(5 * 400));
    CHECK(told.events.back() == "read 128");
    stage.in_layer = nullptr;
    const Told again = stage.run(prompt);
    CHECK(again.outcome.plan.source == S::live);
    CHECK(again.outcome.plan.reused == 128);
    CHECK(again.answer == fake_answer(kAttention, prompt, 6));
}

TEST_CASE("a stop inside a long chunk of a hybrid goes back to its last checkpoint") {
    const bool checkpoint = GENERATE(true, false);
    SlowStage stage(kHybrid, milliseconds(400), 192);
    const TokenIds prompt = long_prompt();
    GenerateRequest request = EngineStage::request(prompt);
    if (checkpoint) request.pin = 100;
    request.hash = true;
    stage.in_layer = [&](const FakePass&, std::int64_t) { stage.engine->cancel(1); };
    const Told told = stage.run(request);
    CHECK(told.outcome.finish == FinishReason::cancel);
    CHECK(told.outcome.prompt_read == 192);
    stage.in_layer = nullptr;
    const Told again = stage.run(request);
    CHECK(again.outcome.plan.reused == (checkpoint ? 100 : 0));
    CHECK(again.answer == fake_answer(kHybrid, prompt, 6));
    EngineStage other(kHybrid);
    CHECK(again.outcome.state_sha256 == other.run(request).outcome.state_sha256);
}

TEST_CASE("a conversation that rested is there again after a turn was given up inside a chunk") {
    SlowStage stage(kHybrid, milliseconds(400), 310);
    const TokenIds first = long_prompt();
    const Told rested = stage.run(first);
    const TokenIds second =
        joined({first, rested.answer, {kFakeEnd}, turn(kFakeUser, 200, 3), assistant_opens()});
    stage.in_layer = [&](const FakePass&, std::int64_t) { stage.engine->cancel(1); };
    CHECK(stage.run(second).outcome.finish == FinishReason::cancel);
    stage.in_layer = nullptr;
    const Told again = stage.run(second);
    // All that was computed of the answer: its last token was told and not read.
    CHECK(again.outcome.plan.reused == std::ssize(first) + 5);
    CHECK_FALSE(again.outcome.plan.switched);
    CHECK(again.answer == fake_answer(kHybrid, second, 6));
}

TEST_CASE("a stop in a chunk of the usual length waits for its end and loses nothing") {
    SlowStage stage(kHybrid, milliseconds(20));
    const TokenIds prompt = long_prompt();
    stage.in_layer = [&](const FakePass& pass, std::int64_t) {
        if (pass.first == 128) stage.engine->cancel(1);
    };
    CHECK(stage.run(prompt).outcome.prompt_read == 192);
    stage.in_layer = nullptr;
    CHECK(stage.run(prompt).outcome.plan.reused == 192);
}

}  // namespace strata::tests
