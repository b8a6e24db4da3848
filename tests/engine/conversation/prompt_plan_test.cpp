// The plan of a prompt as a table: what is live, what comes, what must be said about it
// (DETAILS.md, The live conversation).
#include "strata/core/prompt_plan.hpp"

#include <catch2/catch.hpp>

namespace strata {
namespace {

constexpr TokenId kOpen = 1;
constexpr TokenId kSystem = 2;
constexpr TurnWords kWords{kOpen, kSystem};

// A live conversation: root [0, 10), first user turn [10, 16), assistant's turn from 16, 24 rows.
TokenIds live_ids() {
    return {kOpen, kSystem, 20, 21, 22,    23, 24, 25, 26, 9,  kOpen, 3,
            30,    31,      32, 9,  kOpen, 4,  40, 41, 42, 43, 44,    9};
}

struct Live {
    TokenIds ids = live_ids();
    std::vector<CheckpointMark> checkpoints{{CheckpointKind::root, 10}, {CheckpointKind::turn, 16}};
    Identity identity;
    bool anywhere = false;

    LiveView view() const {
        return {ids, checkpoints, mark_prompt(ids, std::nullopt, kWords), identity, anywhere};
    }
};

// What becomes of the live conversation is outgoing_test.cpp's.
PromptPlan plan(const TokenIds& prompt, const Live& live, const Identity& identity = {}) {
    PromptPlan made =
        plan_prompt({prompt, mark_prompt(prompt, std::nullopt, kWords), identity}, live.view());
    made.outgoing = OutgoingFate::none;
    return made;
}

TokenIds first_rows(std::size_t count) {
    TokenIds ids = live_ids();
    ids.resize(count);
    return ids;
}

TokenIds with(TokenIds ids, std::initializer_list<TokenId> more) {
    ids.insert(ids.end(), more);
    return ids;
}

PromptPlan expected(ResumeSource source, Position reused, bool switched, MissReason miss,
                    Position common) {
    PromptPlan plan;
    plan.source = source;
    plan.reused = reused;
    plan.switched = switched;
    plan.miss = miss;
    plan.common = common;
    return plan;
}

}  // namespace

TEST_CASE("the first request ever is a cold switch that nothing is known of") {
    const TokenIds prompt = live_ids();
    const PromptView view{prompt, mark_prompt(prompt, std::nullopt, kWords), {}};
    CHECK(plan_prompt(view, std::nullopt) ==
          expected(ResumeSource::cold, 0, true, MissReason::fresh, 0));
    CHECK(plan_prompt(view, LiveView{}) ==
          expected(ResumeSource::cold, 0, true, MissReason::fresh, 0));
}

TEST_CASE("a hybrid resumes only at its end and at its checkpoints") {
    const Live live;
    const TokenIds next_turn = with(live_ids(), {kOpen, 3, 50, 9, kOpen, 4});
    const TokenIds shorter_answer = with(first_rows(20), {9, kOpen, 3, 50, 9, kOpen, 4});
    const TokenIds other_question = with(first_rows(13), {60, 9, kOpen, 4});
    const TokenIds other_system = with(first_rows(5), {60, 9, kOpen, 3, 61, 9, kOpen, 4});
    using S = ResumeSource;
    using M = MissReason;
    CHECK(plan(next_turn, live) == expected(S::live, 24, false, M::none, 24));
    CHECK(plan(shorter_answer, live) == expected(S::turn, 16, false, M::none, 20));
    CHECK(plan(first_rows(18), live) == expected(S::turn, 16, false, M::none, 18));
    CHECK(plan(other_question, live) == expected(S::root, 10, true, M::fresh, 13));
    CHECK(plan(other_system, live) == expected(S::cold, 0, true, M::fresh, 5));
}

TEST_CASE("an attention-only model resumes anywhere and leaves one token to read") {
    Live live;
    live.anywhere = true;
    const TokenIds shorter_answer = with(first_rows(20), {9, kOpen, 3, 50, 9, kOpen, 4});
    const TokenIds other_question = with(first_rows(13), {60, 9, kOpen, 4});
    using S = ResumeSource;
    using M = MissReason;
    CHECK(plan(with(live_ids(), {kOpen}), live) == expected(S::live, 24, false, M::none, 24));
    CHECK(plan(shorter_answer, live) == expected(S::live, 20, false, M::none, 20));
    CHECK(plan(live_ids(), live) == expected(S::live, 23, false, M::none, 24));
    CHECK(plan(other_question, live) == expected(S::root, 13, true, M::fresh, 13));
    CHECK(plan({60, 61}, live) == expected(S::cold, 0, true, M::fresh, 0));
}

TEST_CASE("at least one token is left to read even when a checkpoint is at the prompt end") {
    Live live;
    live.checkpoints.push_back({CheckpointKind::pin, 20});
    CHECK(plan(first_rows(20), live).reused == 16);
    CHECK(plan(first_rows(21), live).reused == 20);
    CHECK(plan(first_rows(21), live).source == ResumeSource::pin);
}

TEST_CASE("the longest match wins and at equal length the live state") {
    Live live;
    live.checkpoints = {{CheckpointKind::interval, 12}, {CheckpointKind::pin, 24}};
    const TokenIds next = with(live_ids(), {kOpen, 4});
    CHECK(plan(next, live).source == ResumeSource::live);
    live.checkpoints = {{CheckpointKind::tail, 20}, {CheckpointKind::turn, 16}};
    const TokenIds edited = with(first_rows(22), {9, 9});
    CHECK(plan(edited, live).source == ResumeSource::tail);
    CHECK(plan(edited, live).reused == 20);
}

TEST_CASE("an interval checkpoint inside the root is only the root") {
    Live live;
    live.checkpoints = {{CheckpointKind::interval, 8}};
    const TokenIds other_question = with(first_rows(13), {60, 9, kOpen, 4});
    CHECK(plan(other_question, live) ==
          expected(ResumeSource::interval, 8, true, MissReason::fresh, 13));
}

TEST_CASE("a history that changed beyond the first turn with nothing to resume is rewritten") {
    Live live;
    live.checkpoints.clear();
    const TokenIds rewritten = with(first_rows(20), {9, kOpen, 3, 50, 9, kOpen, 4});
    CHECK(plan(rewritten, live) ==
          expected(ResumeSource::cold, 0, true, MissReason::rewritten, 20));
}

TEST_CASE("a prompt that the live conversation holds whole is not rewritten") {
    Live live;
    live.checkpoints.clear();
    using S = ResumeSource;
    CHECK(plan(first_rows(20), live) == expected(S::cold, 0, true, MissReason::none, 20));
    CHECK(plan(live_ids(), live) == expected(S::cold, 0, true, MissReason::none, 24));
    // A root to resume at is not more than the root.
    live.checkpoints = {{CheckpointKind::root, 10}};
    CHECK(plan(first_rows(20), live) == expected(S::root, 10, true, MissReason::none, 20));
    // One id more or another one is a change, and less than the first turn says nothing.
    live.checkpoints.clear();
    CHECK(plan(with(first_rows(20), {77}), live).miss == MissReason::rewritten);
    CHECK(plan(with(first_rows(8), {60, kOpen, 3, 61, kOpen, 4}), live).miss == MissReason::fresh);
    live.identity.steering = "calm";
    CHECK(plan(first_rows(20), live).miss == MissReason::steering);
}

TEST_CASE("another steering mode reuses nothing and is named when only it differs") {
    Live live;
    live.identity.steering = "calm";
    const TokenIds next = with(live_ids(), {kOpen, 3, 50, 9, kOpen, 4});
    CHECK(plan(next, live) == expected(ResumeSource::cold, 0, true, MissReason::steering, 24));
    CHECK(plan(next, live, {"calm", ""}).source == ResumeSource::live);
    CHECK(plan({60, 61, 62}, live).miss == MissReason::fresh);
}

TEST_CASE("the same first turn behind another head is another thinking level") {
    const Live live;
    TokenIds other_head = {kOpen, kSystem, 70, 9};
    const TokenIds rest = live_ids();
    other_head.insert(other_head.end(), rest.begin() + 10, rest.begin() + 18);
    CHECK(plan(other_head, live, {"", "high"}).miss == MissReason::level);
    CHECK(plan(other_head, live, {"", ""}).miss == MissReason::fresh);
    TokenIds other_chat = other_head;
    other_chat[6] = 77;
    CHECK(plan(other_chat, live, {"", "high"}).miss == MissReason::fresh);
}

TEST_CASE("the thinking level alone decides nothing") {
    const Live live;
    const TokenIds next = with(live_ids(), {kOpen, 3, 50, 9, kOpen, 4});
    CHECK(plan(next, live, {"", "high"}).source == ResumeSource::live);
    CHECK_FALSE(plan(next, live, {"", "high"}).switched);
}

TEST_CASE("reuse of exactly the first turn is a continuation and of one token less is not") {
    Live live;
    live.checkpoints = {{CheckpointKind::pin, 16}};
    const TokenIds edited = with(first_rows(17), {60, 9});
    REQUIRE(mark_prompt(edited, std::nullopt, kWords).first_turn == 16);
    CHECK_FALSE(plan(edited, live).switched);
    live.checkpoints = {{CheckpointKind::pin, 15}};
    CHECK(plan(edited, live).switched);
}

TEST_CASE("a hit that turned out to be spoilt is why a prompt is a miss and of nothing else") {
    Live live;
    const TokenIds prompt = with(first_rows(16), {kOpen, 4, 50});  // goes on at the turn's mark
    const PromptView view{prompt, mark_prompt(prompt, std::nullopt, kWords), {}};
    const PromptPlan hit = plan_prompt(view, live.view());
    REQUIRE(hit.reused == 16);
    CHECK(plan_prompt(view, live.view(), {}, 16) == hit);
    live.checkpoints.pop_back();
    PromptPlan miss = plan_prompt(view, live.view());
    REQUIRE(miss.source == ResumeSource::root);
    REQUIRE(miss.miss == MissReason::rewritten);
    miss.miss = MissReason::invalid;
    CHECK(plan_prompt(view, live.view(), {}, 16) == miss);
    miss.common = std::ssize(prompt) + 7;
    CHECK(plan_prompt(view, live.view(), {}, miss.common) == miss);
}

}  // namespace strata
