// The scenarios of the parity scripts at the level of the policy: the same requests, the same
// figures, without a model. Each figure is the specification's (DETAILS.md, Conversation cache: the
// policy), not what the code prints.
#include <catch2/catch.hpp>

#include "policy_stage.hpp"

namespace strata::tests {
namespace {

constexpr SimShape kHybrid{true, 10, 7};
constexpr SimShape kAttention{false, 10, 7};
constexpr std::uint64_t kWide = 100'000;

CacheLimits limits(std::uint64_t budget, std::int64_t slots = 4) {
    return {budget, slots, 1000, 6};
}

// System turn of 23 tokens, user's turn of 7, assistant's head of 2: 32 tokens, F = 30.
TokenIds chat(TokenId system, TokenId question) {
    return joined(
        {turn_of(kSystemWord, system, 20), turn_of(kUserWord, question, 4), assistant_head()});
}
TokenIds a() {
    return chat(100, 200);
}
TokenIds b() {
    return chat(130, 210);
}
TokenIds c() {
    return chat(160, 220);
}

void check_verdict(const Said& said, bool switched, bool restored) {
    CHECK(said.plan.switched == switched);
    CHECK(said.plan.restored == restored);
}

}  // namespace

TEST_CASE("reuse: two chats alternate and both come back") {
    const SimShape shape = GENERATE(kHybrid, kAttention);
    PolicyStage stage(shape, limits(kWide));
    const Said first = stage.say(a());
    check_verdict(first, true, false);
    const Said other = stage.say(b());
    check_verdict(other, true, false);
    CHECK(other.parked_now);
    const Said more = stage.reply(first, 230);
    check_verdict(more, true, true);
    CHECK(more.plan.reused >= std::ssize(a()));
    CHECK(more.plan.source == ResumeSource::parked);
    const Said back = stage.reply(other, 240);
    check_verdict(back, true, true);
    const TokenIds again(more.ids.begin(), more.ids.end() - 3);  // the same prompt as `more`'s
    const Said checkpoint = stage.say(again);
    check_verdict(checkpoint, true, true);
    CHECK(checkpoint.plan.source == ResumeSource::parked_checkpoint);
    CHECK(checkpoint.ids == more.ids);
    CHECK(stage.counters() == CacheCounters{});
    CHECK(stage.held());
}

TEST_CASE("exchange: a budget for one snapshot parks twice and skips twice") {
    PolicyStage stage(kHybrid, limits(300));
    const Said first = stage.say(a());
    const Said other = stage.say(b());
    CHECK(other.parked_now);
    const Said more = stage.reply(first, 230);
    CHECK(more.plan.restored);
    CHECK_FALSE(more.parked_now);
    CHECK(more.skip == ParkSkip::budget);
    const Said back = stage.reply(other, 240);
    CHECK(back.parked_now);
    check_verdict(back, true, false);
    CHECK(back.plan.miss == MissReason::budget);
    const Said last = stage.say(TokenIds(more.ids.begin(), more.ids.end() - 3));
    CHECK(last.plan.restored);
    CHECK(last.skip == ParkSkip::budget);
    CHECK(stage.parks() == 2);
    CHECK(stage.counters().lost == 2);
    CHECK(stage.counters().evictions() == 0);
    CHECK(stage.held());
}

TEST_CASE("pressure: a budget for one of three evicts twice") {
    PolicyStage stage(kHybrid, limits(300));
    stage.say(a());
    stage.say(b());
    stage.say(c());
    const Said again = stage.say(a());
    CHECK(stage.parks() == 3);
    CHECK(stage.counters().evicted_budget == 2);
    CHECK(again.plan.reused == 0);
    CHECK(again.plan.miss == MissReason::evicted);
    CHECK(stage.held());
}

TEST_CASE("oversized: what cannot fit an empty cache is not parked and evicts nothing") {
    PolicyStage stage(kHybrid, limits(100));
    stage.say(a());
    for (const TokenIds& prompt : {b(), c(), a()}) {
        CHECK(stage.say(prompt).skip == ParkSkip::too_large);
    }
    CHECK(stage.parks() == 0);
    CHECK(stage.counters() == CacheCounters{});
}

TEST_CASE("admission: below the floor or without a reading nothing is parked") {
    const std::optional<std::uint64_t> available =
        GENERATE(as<std::optional<std::uint64_t>>{}, std::nullopt, 999, 1000);
    PolicyStage stage(kHybrid, limits(kWide));
    Asked asked;
    asked.reading = {available, MemoryBound::host};
    stage.say(a(), asked);
    const ParkSkip why = available ? ParkSkip::floor : ParkSkip::unknown_reading;
    for (const TokenIds& prompt : {b(), c(), a()}) CHECK(stage.say(prompt, asked).skip == why);
    CHECK(stage.parks() == 0);
    CHECK(stage.say(b()).plan.miss == MissReason::floor);
}

TEST_CASE("root: ten chats over one system prompt hold it once") {
    const SimShape shape = GENERATE(kHybrid, kAttention);
    PolicyStage stage(shape, limits(kWide, 10));
    for (TokenId i = 0; i < 10; ++i) {
        const Said said = stage.say(chat(100, 300 + 10 * i));
        check_verdict(said, true, false);
        if (i == 0) continue;
        CHECK(said.plan.source == ResumeSource::root);
        CHECK(said.plan.miss == MissReason::fresh);
        CHECK(said.parked_now);
    }
    check_verdict(stage.say(b()), true, false);
    CHECK(stage.parked() == 10);
    // A chat is 35 tokens, 18 pages of 2. Hybrid: R = 23, so 11 full pages and the root's state are
    // shared, 7 pages, a turn's and an end's state are each chat's own. Attention-only: the word
    // that opens the question is shared as well, 12 full pages.
    const std::uint64_t expected =
        shape.recurrent ? 11 * 10 + 7 + 10 * (7 * 10 + 2 * 7) : 12 * 10 + 10 * (6 * 10);
    CHECK(stage.cached().bytes() - stage.cached().retained_bytes() == expected);
}

TEST_CASE("flood: nine turns of one chat leave the other parked") {
    const SimShape shape = GENERATE(kHybrid, kAttention);
    PolicyStage stage(shape, limits(kWide));
    const Said first = stage.say(a());
    Said said = stage.say(b());
    for (TokenId i = 1; i < 9; ++i) {
        said = stage.reply(said, 300 + 10 * i);
        check_verdict(said, false, false);
    }
    check_verdict(stage.reply(first, 230), true, true);
    CHECK(stage.counters() == CacheCounters{});
    CHECK(stage.parked() == 1);
}

TEST_CASE("supersede: going back and forth inside one chat keeps one copy") {
    const SimShape shape = GENERATE(kHybrid, kAttention);
    PolicyStage stage(shape, limits(kWide));
    const TokenIds c1 = c();
    const Said s1 = stage.say(c1);
    const Said s2 = stage.reply(s1, 230);
    const TokenIds c2(s2.ids.begin(), s2.ids.end() - 3);
    const Said s3 = stage.reply(s2, 240);
    const TokenIds c3(s3.ids.begin(), s3.ids.end() - 3);
    const Said back = stage.say(c2);
    check_verdict(back, false, false);
    CHECK(back.plan.outgoing == OutgoingFate::park_if_free);
    CHECK(back.parked_now);
    const Said forth = stage.say(c3);
    check_verdict(forth, true, true);
    CHECK(forth.plan.outgoing == OutgoingFate::superseded);
    stage.say(a());
    CHECK(stage.counters().superseded == 1);
    CHECK(stage.counters().evictions() == 0);
    CHECK(stage.parked() == 1);
}

TEST_CASE("thinking: a reply without its thinking resumes and another level is named") {
    const SimShape shape = GENERATE(kHybrid, kAttention);
    const bool with_system = GENERATE(true, false);
    PolicyStage stage(shape, limits(kWide));
    const TokenIds head = with_system ? turn_of(kSystemWord, 100, 20) : TokenIds{};
    const TokenIds question = joined({turn_of(kUserWord, 200, 4), assistant_head()});
    const Said first = stage.say(joined({head, question}));
    // The client sends the answer back without its first token, which was thinking.
    const TokenIds answer(first.ids.end() - 2, first.ids.end());
    const Said next = stage.say(
        joined({head, question, answer, {kEnd}, turn_of(kUserWord, 230, 4), assistant_head()}));
    check_verdict(next, false, false);
    const Said side = stage.say(b());
    CHECK(side.parked_now);
    const Said third = stage.reply(next, 240);
    check_verdict(third, true, true);
    Asked high;
    high.level = "high";
    const Said other_head = stage.say(joined({turn_of(kSystemWord, 150, 6), question}), high);
    check_verdict(other_head, true, false);
    CHECK(other_head.plan.miss == MissReason::level);
}

TEST_CASE("steering: a changed mode is a switch and back is a hit") {
    const SimShape shape = GENERATE(kHybrid, kAttention);
    PolicyStage stage(shape, limits(kWide));
    const Said first = stage.say(a());
    Asked calm;
    calm.steering = "calm";
    const Said changed =
        stage.say(joined({first.ids, {kEnd}, turn_of(kUserWord, 230, 4), assistant_head()}), calm);
    check_verdict(changed, true, false);
    CHECK(changed.plan.miss == MissReason::steering);
    CHECK(changed.plan.reused == 0);
    const Said back = stage.reply(first, 240);
    check_verdict(back, true, true);
}

TEST_CASE("one-shot: a side request without checkpoints leaves nothing and costs nobody") {
    PolicyStage stage(kHybrid, limits(kWide));
    const Said first = stage.say(a());
    Asked once;
    once.keep = false;
    const Said side = stage.say(b(), once);
    CHECK(side.parked_now);
    const Said back = stage.reply(first, 230);
    check_verdict(back, true, true);
    CHECK(back.skip == ParkSkip::one_shot);
    CHECK(stage.parked() == 0);
}

TEST_CASE("cancel: a conversation broken off in a chunk is cut back to its last checkpoint") {
    PolicyStage stage(kHybrid, limits(kWide));
    Asked broken;
    broken.answers = false;
    broken.read = 28;  // beyond the root at 23
    stage.say(a(), broken);
    const Said other = stage.say(b());
    CHECK(other.plan.cut == 23);
    CHECK(other.parked_now);
    const Said again = stage.say(a());
    CHECK(again.plan.reused == 23);
    check_verdict(again, true, false);

    broken.read = 10;  // before any checkpoint
    stage.say(c(), broken);
    const Said after = stage.say(a());
    CHECK(after.skip == ParkSkip::incomplete);
}

TEST_CASE("prompts without turn words switch and come back") {
    const SimShape shape = GENERATE(kHybrid, kAttention);
    PolicyStage stage(shape, limits(kWide));
    const Said first = stage.say({300, 301, 302, 303, 304});
    const Said other = stage.say({310, 311, 312, 313});
    CHECK(other.parked_now);
    TokenIds more = first.ids;
    more.push_back(320);
    const Said back = stage.say(more);
    check_verdict(back, true, true);
    CHECK(back.plan.reused == std::ssize(first.ids));
    CHECK(back.plan.source == ResumeSource::parked);
}

TEST_CASE("a new chat from the live root parks the old one on every kind of model") {
    const SimShape shape = GENERATE(kHybrid, kAttention);
    PolicyStage stage(shape, limits(kWide));
    const Said first = stage.say(chat(100, 200));
    const Said second = stage.say(chat(100, 250));
    CHECK(second.parked_now);
    CHECK(second.plan.source == ResumeSource::root);
    const Said back = stage.reply(first, 230);
    check_verdict(back, true, true);
    CHECK(back.plan.reused == std::ssize(first.ids));
}

}  // namespace strata::tests
