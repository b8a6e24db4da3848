// What of the last row leaves the device: the best token's id where that is all that a request
// needs, the logits for everything else; and that the answer is the same either way.
#include <catch2/catch.hpp>

#include "../../support/engine_stage.hpp"

namespace strata::tests {
namespace {

constexpr FakeShape kShape{true, 97, 64};
constexpr std::int64_t kTokens = 12;

TokenIds prompt() {
    return joined({turn(kFakeUser, 100, 2), assistant_opens()});
}

struct Answered {
    Told told;
    std::int64_t logits_given = 0;
};
Answered answer(GenerateRequest request) {
    EngineStage stage(kShape);
    Answered out;
    out.told = stage.run(std::move(request));
    out.logits_given = stage.runner->logits_given;
    return out;
}

GenerateRequest request() {
    return EngineStage::request(prompt(), kTokens);
}

}  // namespace

TEST_CASE("a greedy request that wants nothing else takes no logits from the device") {
    const Answered plain = answer(request());
    CHECK(plain.logits_given == 0);
    CHECK(plain.told.answer == fake_answer(kShape, prompt(), kTokens));
    CHECK(plain.told.reports.empty());
}

TEST_CASE("penalties that are off leave a greedy request greedy") {
    GenerateRequest off = request();
    off.sampling.repeat_penalty = 1.3;
    off.sampling.penalty_last_n = 0;
    CHECK(answer(off).logits_given == 0);
    off.sampling.repeat_penalty = 1;
    off.sampling.penalty_last_n = 64;
    off.sampling.top_k = 5;
    off.sampling.top_p = 0.5;
    off.sampling.seed = 9;
    const Answered filtered = answer(off);
    CHECK(filtered.logits_given == 0);
    CHECK(filtered.told.answer == fake_answer(kShape, prompt(), kTokens));
}

TEST_CASE("greedy answers are the same with and without logits") {
    const TokenIds wanted = fake_answer(kShape, prompt(), kTokens);
    GenerateRequest reported = request();
    reported.logprobs = 3;
    const Answered with_reports = answer(reported);
    CHECK(with_reports.logits_given == kTokens);
    CHECK(with_reports.told.answer == wanted);
    CHECK(with_reports.told.reports.size() == wanted.size());
    GenerateRequest hashed = request();
    hashed.hash = true;
    const Answered with_hash = answer(hashed);
    CHECK(with_hash.logits_given > 0);
    CHECK(with_hash.told.answer == wanted);
    CHECK(with_hash.told.outcome.logits_sha256.size() == 64);
}

TEST_CASE("every kind of request that looks at other logits gets them") {
    for (const int kind : {0, 1, 2, 3}) {
        INFO(kind);
        GenerateRequest one = request();
        if (kind == 0) one.sampling.temperature = 0.8;
        if (kind == 1) one.sampling.repeat_penalty = 1.1;
        if (kind == 2) one.sampling.frequency_penalty = 0.5;
        if (kind == 3) one.sampling.presence_penalty = -0.5;
        CHECK(answer(one).logits_given == kTokens);
    }
}

TEST_CASE("requests of both kinds follow each other in one conversation") {
    EngineStage stage(kShape);
    TokenIds ids = prompt();
    for (int round = 0; round < 4; ++round) {
        INFO(round);
        GenerateRequest next = EngineStage::request(ids, 3);
        next.logprobs = round % 2;
        const Told told = stage.run(next);
        CHECK(told.answer == fake_answer(kShape, ids, 3));
        ids = joined({ids, told.answer});
    }
}

TEST_CASE("logits that are not finite end a request the same way whatever it wants") {
    for (const std::int32_t logprobs : {0, 2}) {
        EngineStage stage(kShape);
        stage.runner->nan_logits = true;
        GenerateRequest one = request();
        one.logprobs = logprobs;
        const Told told = stage.run(one);
        CHECK(told.outcome.finish == FinishReason::error);
        CHECK(told.outcome.fault == "the model's logits are not finite at position 105");
        stage.runner->nan_logits = false;
        CHECK(stage.run(one).answer == fake_answer(kShape, prompt(), kTokens));
    }
}

}  // namespace strata::tests
