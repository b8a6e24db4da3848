// What of the last row leaves the device: the best token's id, a shortlist or the logits, whichever
// is the least that a request needs; and that the answer is the same either way.
#include <functional>
#include <vector>

#include <catch2/catch.hpp>

#include "../../support/engine_stage.hpp"
#include "engine/next_token.hpp"

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

TEST_CASE("what a request wants of a row follows from its settings") {
    constexpr std::int64_t kVocabulary = 50'000;
    struct Row {
        const char* what;
        RowWish wish;
        std::function<void(GenerateRequest&)> change;
    };
    const std::vector<Row> table = {
        {"greedy", RowWish::best, [](auto&) {}},
        {"greedy, filters", RowWish::best, [](auto& r) { r.sampling.top_k = 9000; }},
        {"greedy, no window", RowWish::best,
         [](auto& r) {
             r.sampling.presence_penalty = 1;
             r.sampling.penalty_last_n = 0;
         }},
        {"repeat", RowWish::shortlist, [](auto& r) { r.sampling.repeat_penalty = 1.1; }},
        {"frequency", RowWish::shortlist, [](auto& r) { r.sampling.frequency_penalty = 0.5; }},
        {"presence", RowWish::shortlist, [](auto& r) { r.sampling.presence_penalty = -0.5; }},
        {"hot", RowWish::shortlist, [](auto& r) { r.sampling.temperature = 0.8; }},
        {"top_k", RowWish::shortlist,
         [](auto& r) {
             r.sampling.temperature = 0.8;
             r.sampling.top_k = 40;
         }},
        {"deep top_k", RowWish::logits,
         [](auto& r) {
             r.sampling.temperature = 0.8;
             r.sampling.top_k = Shortlist::kCountMax + 1;
         }},
        {"long window", RowWish::logits,
         [](auto& r) {
             r.sampling.presence_penalty = 1;
             r.sampling.penalty_last_n = TokenCounts::kMost + 1;
         }},
        {"greedy, reports", RowWish::logits, [](auto& r) { r.logprobs = 1; }},
        {"hot, reports", RowWish::logits,
         [](auto& r) {
             r.sampling.temperature = 1;
             r.logprobs = 1;
         }},
        {"hash", RowWish::logits, [](auto& r) { r.hash = true; }},
    };
    for (const Row& row : table) {
        INFO(row.what);
        GenerateRequest one;
        row.change(one);
        CHECK(row_wish(one, kVocabulary) == row.wish);
    }
}

TEST_CASE("sampled answers are the same from shortlists and from logits") {
    for (const int kind : {0, 1, 2, 3, 4, 5, 6, 7}) {
        for (const std::int32_t room : {Shortlist::kCandidatesMax, 2}) {
            INFO(kind << ", room for " << room);
            GenerateRequest one = request();
            one.sampling.seed = static_cast<std::uint64_t>(kind);
            one.sampling.temperature = kind < 5 ? 0.8 : 0;
            if (kind == 1) one.sampling.top_k = 40;
            if (kind == 1 || kind == 2) one.sampling.top_p = 0.95;
            if (kind == 3) one.sampling.min_p = 0.05;
            if (kind == 4) one.sampling.top_p = 0.9;
            if (kind >= 4) one.sampling.repeat_penalty = 1.6;
            if (kind == 6) one.sampling.frequency_penalty = 2;
            if (kind == 7) one.sampling.presence_penalty = 5;
            EngineStage listing(kShape);
            listing.runner->listed_most = room;
            const Told listed = listing.run(one);
            CHECK(listing.runner->logits_given == 0);
            CHECK(listing.runner->shortlists_given == kTokens);
            const std::int64_t copied = listing.runner->logits_copied;
            const bool needs_list = kind > 0;
            if (room == 2 && kind > 0 && kind < 5) CHECK(copied == kTokens * kShape.vocabulary);
            if (room > 2 && needs_list) CHECK(copied == 0);
            if (!needs_list) CHECK(copied == kTokens * kShape.vocabulary);  // it is one block
            one.logprobs = 1;
            EngineStage reporting(kShape);
            const Told reported = reporting.run(one);
            CHECK(reporting.runner->logits_given == kTokens);
            CHECK(reporting.runner->shortlists_given == 0);
            CHECK(listed.answer == reported.answer);
            CHECK(std::ssize(listed.answer) == kTokens);
        }
    }
}

TEST_CASE("penalties of a second turn look at the prompt and at what was written since") {
    GenerateRequest one = request();
    one.sampling.temperature = 0.7;
    one.sampling.presence_penalty = 3;
    one.sampling.penalty_last_n = 7;
    EngineStage listing(kShape);
    EngineStage reporting(kShape);
    for (int turn = 0; turn < 4; ++turn) {
        INFO(turn);
        one.logprobs = 0;
        const Told listed = listing.run(one);
        one.logprobs = 1;
        CHECK(reporting.run(one).answer == listed.answer);
        one.prompt = follow_up(one.prompt, listed.answer, static_cast<std::uint64_t>(turn));
    }
    CHECK(listing.runner->logits_given == 0);
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
        one.sampling.temperature = 0.8;
        const Told sampled = stage.run(one);
        CHECK(sampled.outcome.finish == FinishReason::error);
        CHECK(sampled.outcome.fault == told.outcome.fault);
        one.sampling.temperature = 0;
        stage.runner->nan_logits = false;
        CHECK(stage.run(one).answer == fake_answer(kShape, prompt(), kTokens));
    }
}

}  // namespace strata::tests
