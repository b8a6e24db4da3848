// Conversations that come and go with the conversation cache on: who is parked, brought back, given
// up, and that no answer ever changes by it. Every answer is compared with that of a model which
// read the whole prompt itself.
#include <algorithm>

#include <catch2/catch.hpp>

#include "../../support/engine_stage.hpp"

namespace strata::tests {
namespace {

using Step = ConversationStep;

constexpr FakeShape kHybrid{true, 97, 64};
constexpr FakeShape kAttention{false, 97, 64};
constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

EngineLimits caching(std::uint64_t budget_bytes, std::int64_t slots = 4) {
    EngineLimits limits = EngineStage::default_limits();
    limits.cache.cache = {budget_bytes, slots, 100 * kMib, limits.checkpoints.kept};
    limits.cache.hysteresis_bytes = 10 * kMib;
    limits.cache.pressure_period = std::chrono::milliseconds(2000);
    limits.cache.verify = true;
    return limits;
}

TokenIds opening(std::uint64_t seed, std::int64_t words = 300) {
    return joined({turn(kFakeSystem, 20, seed), turn(kFakeUser, words, seed), assistant_opens()});
}

struct Chat {
    explicit Chat(const FakeShape& kind, EngineLimits limits) : shape(kind), stage(kind, limits) {}
    Told say(const TokenIds& prompt, std::int64_t max_new = 6) {
        Told told = stage.run(prompt, max_new);
        CHECK_FALSE(told.refusal);
        CHECK(told.answer == fake_answer(shape, prompt, max_new));
        CHECK(told.outcome.cache.bytes <= stage.engine->limits().cache.cache.budget_bytes);
        return told;
    }
    FakeShape shape;
    EngineStage stage;
};

void check_verdict(const Told& told, bool switched, bool restored) {
    CHECK(told.outcome.plan.switched == switched);
    CHECK(told.outcome.plan.restored == restored);
}

std::int64_t count(const Told& told, Step step) {
    return std::count_if(told.cache.begin(), told.cache.end(),
                         [step](const ConversationEvent& each) { return each.step == step; });
}

}  // namespace

TEST_CASE("a conversation that was left comes back with all that it had") {
    for (const FakeShape& shape : {kHybrid, kAttention}) {
        Chat chat(shape, caching(64 * kMib));
        const TokenIds a = opening(1);
        const TokenIds b = opening(2);
        const Told first = chat.say(a);
        check_verdict(first, true, false);
        CHECK(first.outcome.conversation == 1);
        const Told other = chat.say(b);
        check_verdict(other, true, false);
        CHECK(other.outcome.cache.parked == 1);
        CHECK(other.outcome.cache.parked_now == true);
        CHECK(count(other, Step::park) == 1);
        // What the step says is held is what the end says, checkpoints that were in RAM before
        // included.
        CHECK(other.cache.back().held_bytes == other.outcome.cache.bytes);
        CHECK(other.cache.back().retained_bytes == other.outcome.cache.retained_bytes);
        CHECK(other.cache.back().parked == 1);
        CHECK(other.resumed_as == 2);
        const TokenIds a2 = follow_up(a, first.answer, 3);
        const Told back = chat.say(a2);
        check_verdict(back, true, true);
        CHECK(back.outcome.plan.reused >= std::ssize(a));
        CHECK(back.outcome.conversation == 1);
        CHECK(back.resumed_as == 1);
        CHECK(count(back, Step::restore) == 1);
        CHECK(back.outcome.cache.parked == 1);  // B
        const Told b_back = chat.say(follow_up(b, other.answer, 4));
        check_verdict(b_back, true, true);
        CHECK(b_back.outcome.conversation == 2);
        CHECK(chat.stage.readings > 0);
    }
}

TEST_CASE("parking a conversation that came back copies only what is new") {
    Chat chat(kAttention, caching(64 * kMib));
    const TokenIds a = opening(1, 1500);
    const Told first = chat.say(a);
    const Told other = chat.say(opening(2));
    const auto parked_bytes = other.cache.front().bytes;
    const Told back = chat.say(follow_up(a, first.answer, 3));
    check_verdict(back, true, true);
    const Told third = chat.say(opening(5));
    const auto park = std::find_if(third.cache.begin(), third.cache.end(),
                                   [](const auto& each) { return each.step == Step::park; });
    REQUIRE(park != third.cache.end());
    CHECK(park->bytes <= 2 * chat.stage.runner->geometry().page_bytes());
    CHECK(park->bytes < parked_bytes / 2);
    CHECK(park->shared_bytes > 0);
}

TEST_CASE("when two conversations do not fit together the outgoing one is lost and says so") {
    EngineStage probe(kHybrid, caching(64 * kMib));
    (void)probe.run(opening(1));
    (void)probe.run(opening(2));
    const std::uint64_t one = probe.engine->conversations().bytes();
    Chat chat(kHybrid, caching(one + one / 2));
    const TokenIds a = opening(1);
    const Told first = chat.say(a);
    (void)chat.say(opening(2));
    const Told back = chat.say(follow_up(a, first.answer, 3));
    check_verdict(back, true, true);
    CHECK(back.outcome.cache.parked_now == false);
    CHECK(back.outcome.cache.park_skip == ParkSkip::budget);
    CHECK(back.outcome.cache.counters.lost == 1);
    CHECK(count(back, Step::skip) == 1);
    CHECK(count(back, Step::lost) == 1);
}

TEST_CASE("without the cache nothing is parked and nothing is asked of the machine") {
    for (const auto& limits : {caching(0), caching(64 * kMib, 0)}) {
        Chat chat(kHybrid, limits);
        (void)chat.say(opening(1));
        const Told other = chat.say(opening(2));
        CHECK(other.cache.empty());
        CHECK(other.outcome.cache.parked == 0);
        CHECK(other.outcome.cache.bytes == 0);
        CHECK(chat.stage.readings == 0);
        CHECK(chat.stage.settled == 0);
    }
}

TEST_CASE("a one shot leaves the chat parked and is itself not kept") {
    Chat chat(kHybrid, caching(64 * kMib));
    const TokenIds a = opening(1);
    const Told first = chat.say(a);
    GenerateRequest side = EngineStage::request(opening(7));
    side.keep = false;
    const Told title = chat.stage.run(side);
    CHECK(title.outcome.cache.parked == 1);
    const Told back = chat.say(follow_up(a, first.answer, 3));
    check_verdict(back, true, true);
    CHECK(back.outcome.cache.park_skip == ParkSkip::one_shot);
    CHECK(back.outcome.cache.parked == 0);
}

TEST_CASE("a chat that comes back for a one shot after another one shot is not lost") {
    Chat chat(kHybrid, caching(64 * kMib));
    const TokenIds a = opening(1);
    const Told first = chat.say(a);
    GenerateRequest side = EngineStage::request(opening(7));
    side.keep = false;
    (void)chat.stage.run(side);
    GenerateRequest inside = EngineStage::request(follow_up(a, first.answer, 7));
    inside.keep = false;
    check_verdict(chat.stage.run(inside), true, true);
    const Told other = chat.say(opening(5));
    CHECK(other.outcome.cache.parked_now == true);
    CHECK(other.outcome.cache.parked == 1);
    check_verdict(chat.say(follow_up(a, first.answer, 3)), true, true);
}

TEST_CASE("a one shot inside a parked chat brings the chat back and leaves it as it was") {
    Chat chat(kHybrid, caching(64 * kMib));
    const TokenIds a = opening(1);
    GenerateRequest opens = EngineStage::request(a);
    opens.label = "chat-a";
    const Told first = chat.stage.run(opens);
    (void)chat.say(opening(2));
    GenerateRequest side = EngineStage::request(follow_up(a, first.answer, 7));
    side.keep = false;
    side.label = "title";
    const Told title = chat.stage.run(side);
    check_verdict(title, true, true);
    CHECK(title.outcome.plan.takes);
    CHECK(title.outcome.plan.source == ResumeSource::parked);
    CHECK(title.outcome.conversation == 1);
    const Told next = chat.say(follow_up(a, first.answer, 3));
    check_verdict(next, false, false);
    CHECK(next.outcome.plan.reused >= std::ssize(a));
    CHECK(next.outcome.conversation == 1);
    const Told other = chat.say(opening(5));
    const auto park = std::find_if(other.cache.begin(), other.cache.end(),
                                   [](const auto& each) { return each.step == Step::park; });
    REQUIRE(park != other.cache.end());
    CHECK(park->conversation == 1);
}

TEST_CASE("below the floor an idle engine gives back the oldest until the target is reached") {
    Chat chat(kHybrid, caching(64 * kMib));
    const TokenIds a = opening(1);
    const Told first = chat.say(a);
    (void)chat.say(opening(2));
    (void)chat.say(opening(3));
    REQUIRE(chat.stage.engine->conversations().entries().size() == 2);
    struct Heard : NoEvents {
        std::vector<ConversationEvent> events;
        std::vector<PressureReport> reports;
        void conversation(const ConversationEvent& event) override { events.push_back(event); }
        void pressure(const PressureReport& report, double) override { reports.push_back(report); }
    } heard;
    chat.stage.available_bytes = 50 * kMib;
    *chat.stage.now += std::chrono::seconds(3);
    REQUIRE(chat.stage.engine->idle_wait() == std::chrono::milliseconds(0));
    chat.stage.engine->idle_step(heard);
    REQUIRE(heard.reports.size() == 1);
    CHECK(heard.reports.front().where == PressureWhere::idle);
    CHECK(heard.reports.front().released_dialogs == 2);
    CHECK(heard.reports.front().exhausted);
    CHECK(heard.events.front().conversation == 1);  // the oldest first
    CHECK(chat.stage.settled > 0);
    CHECK(chat.stage.engine->conversations().bytes() == 0);
    *chat.stage.now += std::chrono::seconds(3);
    chat.stage.engine->idle_step(heard);
    CHECK(heard.reports.size() == 1);  // said once
    chat.stage.available_bytes = 1000 * kMib;
    const Told back = chat.say(follow_up(a, first.answer, 3));
    check_verdict(back, true, false);
    CHECK(back.outcome.plan.miss == MissReason::released);
    CHECK(back.outcome.cache.counters.released == 2);
    CHECK(back.outcome.cache.counters.evictions() == 0);
}

TEST_CASE("memory that is counted late does not cost a second conversation") {
    Chat chat(kHybrid, caching(64 * kMib));
    (void)chat.say(opening(1));
    (void)chat.say(opening(2));
    (void)chat.say(opening(3));
    NoEvents nobody;
    chat.stage.available_bytes = 99 * kMib;
    chat.stage.on_pause = [&] {
        // What one conversation gave back shows at the third look, with much else.
        if (chat.stage.pauses == 3) chat.stage.available_bytes = 120 * kMib;
    };
    *chat.stage.now += std::chrono::seconds(3);
    chat.stage.engine->idle_step(nobody);
    CHECK(chat.stage.pauses == 3);
    CHECK(chat.stage.engine->conversations().entries().size() == 1);
}

TEST_CASE("an unknown reading parks nothing and releases nothing") {
    Chat chat(kHybrid, caching(64 * kMib));
    chat.stage.available_bytes.reset();
    (void)chat.say(opening(1));
    const Told other = chat.say(opening(2));
    CHECK(other.outcome.cache.parked_now == false);
    CHECK(other.outcome.cache.park_skip == ParkSkip::unknown_reading);
    CHECK(other.pressure.empty());
}

TEST_CASE("entries can be pinned and dropped by number") {
    Chat chat(kHybrid, caching(64 * kMib));
    (void)chat.say(opening(1));
    (void)chat.say(opening(2));
    NoEvents nobody;
    Engine& engine = *chat.stage.engine;
    const EntryId entry = engine.conversations().entries().front().entry;
    CHECK(engine.pin(entry));
    CHECK(engine.conversations().entries().front().pinned);
    CHECK(engine.unpin(entry, nobody));
    CHECK_FALSE(engine.drop(entry + 100, nobody));
    CHECK(engine.drop(entry, nobody));
    CHECK(engine.conversations().entries().empty());
    const Told back = chat.say(opening(1));
    check_verdict(back, true, false);
}

TEST_CASE("a request that is stopped at any moment leaves every chat whole") {
    for (const FakeShape& shape : {kHybrid, kAttention}) {
        bool stopped = true;
        for (int moment = 1; stopped; ++moment) {
            Chat chat(shape, caching(64 * kMib));
            const TokenIds a = opening(1, 150);
            const TokenIds b = opening(2, 150);
            const Told first = chat.say(a);
            const Told other = chat.say(b);
            const TokenIds next =
                joined({a, first.answer, {kFakeEnd}, turn(kFakeUser, 150, 3), assistant_opens()});
            int events = 0;
            chat.stage.on_event = [&](const std::string&) {
                if (++events == moment) chat.stage.engine->cancel(1);
            };
            const Told cut = chat.stage.run(next);
            chat.stage.on_event = nullptr;
            stopped = events >= moment;
            const bool early = cut.outcome.finish == FinishReason::cancel;
            CHECK((early || !stopped || std::ssize(cut.answer) == 6));
            (void)chat.say(next);
            (void)chat.say(follow_up(b, other.answer, 4));
            (void)chat.say(next);
        }
    }
}

TEST_CASE("the books must wait while a lent conversation is on its way back") {
    EngineLimits limits = caching(64 * kMib);
    for (const FakeShape& shape : {kHybrid, kAttention}) {
        Chat chat(shape, limits);
        const TokenIds root = turn(kFakeSystem, 400, 1);
        (void)chat.say(joined({root, turn(kFakeUser, 20, 2), assistant_opens()}));
        (void)chat.say(opening(3));
        int seen = 0;
        int moving = 0;
        // The clock goes on while bytes move, so that signs of life are due.
        chat.stage.on_event = [&](const std::string& event) {
            if (event == "conversation") *chat.stage.now += std::chrono::seconds(1);
        };
        chat.stage.on_step = [&] {
            ++seen;
            moving += chat.stage.engine->moving() ? 1 : 0;
        };
        const Told lent = chat.say(joined({root, turn(kFakeUser, 20, 4), assistant_opens()}));
        CHECK(lent.outcome.plan.source == ResumeSource::borrowed);
        CHECK(moving > 0);
        CHECK(seen > moving);  // while it reads and writes they need not wait
        CHECK_FALSE(chat.stage.engine->moving());
    }
}

TEST_CASE("random walks over many chats answer as if nothing had ever been parked") {
    for (const FakeShape& shape : {kHybrid, kAttention}) {
        for (const std::uint64_t budget : {64 * kMib, kMib / 4, kMib / 16}) {
            Chat chat(shape, caching(budget, 3));
            std::vector<TokenIds> chats;
            for (std::uint64_t i = 0; i < 6; ++i) chats.push_back(opening(i % 3 + 1, 40));
            std::uint64_t x = 88172645463325252ULL + budget;
            for (int turn_number = 0; turn_number < 60; ++turn_number) {
                x ^= x << 13;
                x ^= x >> 7;
                x ^= x << 17;
                TokenIds& prompt = chats[x % chats.size()];
                if (std::ssize(prompt) > 1200) prompt = opening(x % 97, 30);
                const Told told = chat.say(prompt, 4);
                prompt = follow_up(prompt, told.answer, x % 1000);
            }
        }
    }
}

}  // namespace strata::tests
