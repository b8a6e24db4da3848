// What one conversation after another reuses, and that no answer changes by it: every answer is
// compared with that of a model which read the whole prompt itself. Both kinds of model: a hybrid,
// which resumes only at checkpoints, and an attention-only one.
#include <catch2/catch.hpp>

#include "../../support/engine_stage.hpp"

namespace strata::tests {
namespace {

using S = ResumeSource;
using M = MissReason;

constexpr FakeShape kHybrid{true, 97, 64};
constexpr FakeShape kAttention{false, 97, 64};

TokenIds system_turn() {
    return turn(kFakeSystem, 20, 1);  // 23 tokens: R when it stands first
}
TokenIds question(std::uint64_t seed) {
    return turn(kFakeUser, 8, seed);  // 11 tokens
}
TokenIds closed(const TokenIds& answer) {
    return joined({answer, {kFakeEnd}});
}
Position size(const TokenIds& ids) {
    return std::ssize(ids);
}

void check_plan(const Told& told, S source, Position reused, bool switched, M miss) {
    CHECK(told.outcome.plan.source == source);
    CHECK(told.outcome.plan.reused == reused);
    CHECK(told.outcome.plan.switched == switched);
    CHECK_FALSE(told.outcome.plan.restored);
    CHECK(told.outcome.plan.miss == miss);
    CHECK(told.outcome.prompt_read == told.outcome.prompt_tokens - reused);
}

// A stage that compares each greedy answer with the oracle's.
struct Chat {
    explicit Chat(const FakeShape& kind, EngineLimits limits = EngineStage::default_limits())
        : shape(kind), stage(kind, limits) {}
    Told say(const TokenIds& prompt, std::int64_t max_new = 6) {
        Told told = stage.run(prompt, max_new);
        CHECK(told.answer == fake_answer(shape, prompt, max_new));
        return told;
    }
    FakeShape shape;
    EngineStage stage;
};

}  // namespace

TEST_CASE("a hybrid chat with a system prompt reuses live state then turn then tail then root") {
    Chat chat(kHybrid);
    const TokenIds first = joined({system_turn(), question(2), assistant_opens()});
    const Told cold = chat.say(first);
    check_plan(cold, S::cold, 0, true, M::fresh);
    CHECK(cold.events.front() == "resume 0 cold");
    CHECK(cold.outcome.conversation == 1);
    CHECK(cold.outcome.checkpoints == 2);  // root and turn

    const TokenIds second = joined({first, closed(cold.answer), question(3), assistant_opens()});
    const Told next = chat.say(second);
    // The last written token was never read.
    check_plan(next, S::live, size(first) + 5, false, M::none);
    CHECK(next.outcome.conversation == 1);
    CHECK(next.outcome.checkpoints == 3);

    const Told again = chat.say(second);
    check_plan(again, S::turn, size(second) - 2, false, M::none);
    CHECK(again.answer == next.answer);

    const TokenIds edited = joined({first, closed(cold.answer), question(4), assistant_opens()});
    check_plan(chat.say(edited), S::tail, size(first) + 5, false, M::none);

    const TokenIds new_chat = joined({system_turn(), question(5), assistant_opens()});
    const Told other = chat.say(new_chat);
    check_plan(other, S::root, size(system_turn()), true, M::fresh);
    CHECK(other.outcome.plan.common >= size(system_turn()));
    CHECK(other.outcome.conversation == 2);

    const TokenIds other_system =
        joined({turn(kFakeSystem, 20, 9), question(5), assistant_opens()});
    check_plan(chat.say(other_system), S::cold, 0, true, M::fresh);
}

TEST_CASE("a hybrid chat without a system prompt continues and starts anew") {
    Chat chat(kHybrid);
    const TokenIds first = joined({question(2), assistant_opens()});
    const Told cold = chat.say(first);
    check_plan(cold, S::cold, 0, true, M::fresh);
    CHECK(cold.outcome.checkpoints == 1);
    const TokenIds second = joined({first, closed(cold.answer), question(3), assistant_opens()});
    check_plan(chat.say(second), S::live, size(first) + 5, false, M::none);
    const Told fresh = chat.say(joined({question(4), assistant_opens()}));
    check_plan(fresh, S::cold, 0, true, M::fresh);
    CHECK(fresh.outcome.plan.common == 2);  // turn-open and role
}

TEST_CASE("a reply that comes back without its thinking resumes at the turn") {
    Chat chat(kHybrid);
    const TokenIds first = joined({system_turn(), question(2), assistant_opens()});
    Told cold = chat.say(first, 8);
    cold.answer.erase(cold.answer.begin(), cold.answer.begin() + 4);
    const TokenIds second = joined({first, closed(cold.answer), question(3), assistant_opens()});
    check_plan(chat.say(second), S::turn, size(first) - 2, false, M::none);
}

TEST_CASE("an attention-only chat resumes wherever the prompts part") {
    Chat chat(kAttention);
    const TokenIds first = joined({system_turn(), question(2), assistant_opens()});
    const Told cold = chat.say(first);
    check_plan(cold, S::cold, 0, true, M::fresh);
    const TokenIds second = joined({first, closed(cold.answer), question(3), assistant_opens()});
    check_plan(chat.say(second), S::live, size(first) + 5, false, M::none);
    check_plan(chat.say(second), S::live, size(second) - 1, false, M::none);

    const TokenIds edited = joined({first, closed(cold.answer), question(4), assistant_opens()});
    const Told edit = chat.say(edited);
    const Position shared = edit.outcome.plan.common;
    CHECK(shared >= size(first) + size(cold.answer) + 3);
    check_plan(edit, S::live, shared, false, M::none);

    const Told other = chat.say(joined({system_turn(), question(5), assistant_opens()}));
    CHECK(other.outcome.plan.common >= size(system_turn()) + 2);
    check_plan(other, S::root, other.outcome.plan.common, true, M::fresh);
    check_plan(chat.say(joined({turn(kFakeUser, 3, 7), assistant_opens()})), S::root, 1, true,
               M::fresh);
}

TEST_CASE("a shortened history resumes at an earlier turn of a hybrid") {
    Chat chat(kHybrid);
    TokenIds history = system_turn();
    std::vector<TokenIds> prompts;
    for (std::uint64_t seed = 2; seed < 6; ++seed) {
        history = joined({history, question(seed), assistant_opens()});
        prompts.push_back(history);
        history = joined({history, closed(chat.say(history).answer)});
    }
    check_plan(chat.say(prompts[1]), S::turn, size(prompts[1]) - 2, false, M::none);
    // What lay beyond it is gone: the longer prompt reads on from there.
    const Told longer = chat.say(prompts[3]);
    CHECK(longer.outcome.plan.reused <= size(prompts[1]) + 5);
    CHECK_FALSE(longer.outcome.plan.switched);
}

TEST_CASE("a one-shot leaves the conversation where it rested") {
    const FakeShape shape = GENERATE(kHybrid, kAttention);
    Chat chat(shape);
    const TokenIds first = joined({system_turn(), question(2), assistant_opens()});
    const Told cold = chat.say(first);
    GenerateRequest aside =
        EngineStage::request(joined({first, closed(cold.answer), question(8), assistant_opens()}));
    aside.keep = false;
    const Told once = chat.stage.run(aside);
    CHECK(once.answer == fake_answer(shape, aside.prompt, 6));
    check_plan(once, S::live, size(first) + 5, false, M::none);
    const TokenIds second = joined({first, closed(cold.answer), question(3), assistant_opens()});
    const Told next = chat.say(second);
    check_plan(next, S::live, size(first) + 5, false, M::none);
    CHECK(next.outcome.conversation == 1);
}

TEST_CASE("a cold one-shot is not continued and may leave its root") {
    Chat chat(GENERATE(kHybrid, kAttention));
    GenerateRequest once =
        EngineStage::request(joined({system_turn(), question(2), assistant_opens()}));
    once.keep = false;
    const Told told = chat.stage.run(once);
    CHECK(told.outcome.checkpoints == 1);
    const TokenIds next =
        joined({once.prompt, closed(told.answer), question(3), assistant_opens()});
    check_plan(chat.say(next), S::root, size(system_turn()), true, M::fresh);
}

TEST_CASE("max_new 0 warms a conversation") {
    const FakeShape shape = GENERATE(kHybrid, kAttention);
    Chat chat(shape);
    const TokenIds head = joined({system_turn(), question(2)});
    const Told warm = chat.stage.run(head, 0);
    CHECK(warm.outcome.finish == FinishReason::length);
    CHECK(warm.outcome.generated == 0);
    CHECK(warm.outcome.prompt_read == size(head));
    CHECK(warm.answer.empty());
    check_plan(chat.say(joined({head, assistant_opens()})), S::live, size(head), false, M::none);
}

TEST_CASE("prompt cache 0 reuses nothing and keeps nothing") {
    const FakeShape shape = GENERATE(kHybrid, kAttention);
    EngineLimits limits = EngineStage::default_limits();
    limits.checkpoints.kept = 0;
    Chat chat(shape, limits);
    const TokenIds first = joined({system_turn(), question(2), assistant_opens()});
    const Told cold = chat.say(first);
    CHECK(cold.outcome.checkpoints == 0);
    check_plan(chat.say(joined({first, closed(cold.answer), question(3), assistant_opens()})),
               S::cold, 0, true, M::fresh);
}

TEST_CASE("a pin is a place to resume at") {
    Chat chat(kHybrid);
    const TokenIds shared = turn(kFakeUser, 30, 6);
    GenerateRequest pinned = EngineStage::request(joined({question(2), shared, assistant_opens()}));
    pinned.pin = size(question(2)) + size(shared);
    (void)chat.stage.run(pinned);
    const Told told = chat.say(joined({question(2), shared, question(9), assistant_opens()}));
    check_plan(told, S::pin, pinned.pin, false, M::none);
    GenerateRequest early =
        EngineStage::request(joined({turn(kFakeUser, 60, 3), assistant_opens()}));
    early.pin = 40;
    (void)chat.stage.run(early);
    TokenIds edited = early.prompt;
    edited[50] = kFakeFirstText;
    CHECK(chat.say(edited).outcome.plan.source == S::pin);
}

TEST_CASE("intervals fall on chunk ends and only the newest are kept") {
    EngineLimits limits = EngineStage::default_limits();
    limits.checkpoints = {3, 100, 0};
    Chat chat(kHybrid, limits);
    // 700 tokens in chunks of 64: intervals at 128, 256, ... 640, and a turn at 700.
    const TokenIds longer = joined({turn(kFakeUser, 697, 2), assistant_opens()});
    CHECK(chat.say(longer).outcome.checkpoints == 3);
    TokenIds edited = longer;
    edited[645] = edited[645] == kFakeFirstText ? kFakeFirstText + 1 : kFakeFirstText;
    check_plan(chat.say(edited), S::interval, 640, true, M::fresh);
    edited[200] = edited[200] == kFakeFirstText ? kFakeFirstText + 1 : kFakeFirstText;
    check_plan(chat.say(edited), S::cold, 0, true, M::fresh);
}

TEST_CASE("a prompt that is sent again without turns is read again and was not rewritten") {
    Chat chat(kHybrid);
    check_plan(chat.stage.run({11, 12, 13}, 4), S::cold, 0, true, M::fresh);
    const Told again = chat.stage.run({11, 12, 13}, 0);
    check_plan(again, S::cold, 0, true, M::none);
    CHECK(again.outcome.plan.common == 3);
    check_plan(chat.stage.run({11, 12, 13}, 0), S::cold, 0, true, M::none);
    check_plan(chat.stage.run({11, 12, 14}, 0), S::cold, 0, true, M::rewritten);
    Chat attention(kAttention);
    check_plan(attention.stage.run({11, 12, 13}, 4), S::cold, 0, true, M::fresh);
    check_plan(attention.stage.run({11, 12, 13}, 0), S::live, 2, false, M::none);
}

TEST_CASE("hashes tell the same state by whatever road it was reached") {
    const FakeShape shape = GENERATE(kHybrid, kAttention);
    const TokenIds first = joined({system_turn(), question(2), assistant_opens()});
    const auto hashed = [](const TokenIds& prompt) {
        GenerateRequest request = EngineStage::request(prompt);
        request.hash = true;
        return request;
    };
    Chat chat(shape);
    const TokenIds second =
        joined({first, closed(chat.say(first).answer), question(3), assistant_opens()});
    const Outcome reused = chat.stage.run(hashed(second)).outcome;
    CHECK(reused.plan.reused > 0);
    Chat other(shape);
    const Outcome cold = other.stage.run(hashed(second)).outcome;
    CHECK(cold.plan.reused == 0);
    CHECK(reused.logits_sha256.size() == 64);
    CHECK(reused.logits_sha256 == cold.logits_sha256);
    CHECK(reused.state_sha256 == cold.state_sha256);
    const Outcome different = other.stage.run(hashed(first)).outcome;
    CHECK(different.logits_sha256 != cold.logits_sha256);
    CHECK(different.state_sha256 != cold.state_sha256);
}

}  // namespace strata::tests
