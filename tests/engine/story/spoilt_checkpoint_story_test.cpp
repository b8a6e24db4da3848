// A checkpoint whose state changed in host memory: found when it is to be used, and the prompt is
// answered from an earlier one or from its beginning, as if that had never been there. On a device
// that copies by itself and on one that does not.
#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>

#include "../../support/engine_stage.hpp"

namespace strata::tests {
namespace {

using S = ResumeSource;

constexpr FakeShape kHybrid{true, 97, 64};
constexpr std::uint64_t kMib = std::uint64_t{1} << 20;
constexpr Position kRoot = 23;  // the system turn

// The system's segments, in the order in which they came.
class OrderedSegments : public HostSegments {
  public:
    Result<std::byte*> map(std::size_t bytes) override {
        auto mapped = inner_.map(bytes);
        if (mapped) segments.push_back({*mapped, bytes});
        return mapped;
    }
    void unmap(std::byte* at, std::size_t bytes) noexcept override {
        std::erase_if(segments, [at](const auto& each) { return each.data() == at; });
        inner_.unmap(at, bytes);
    }
    void discard(std::byte* at, std::size_t bytes) noexcept override { inner_.discard(at, bytes); }

    std::vector<std::span<std::byte>> segments;

  private:
    MappedSegments inner_;
};

void spoil(std::span<std::byte> segment) {
    for (std::size_t i = 0; i < segment.size(); i += 64) segment[i] ^= std::byte{1};
}

struct Heard : NoEvents {
    void token(TokenId id, const std::optional<TokenReport>&) override {
        answer.push_back(id);
        if (on_token) on_token();
    }
    void conversation(const ConversationEvent& event) override {
        if (on_conversation) on_conversation(event);
    }
    TokenIds answer;
    std::function<void()> on_token;
    std::function<void(const ConversationEvent&)> on_conversation;
};

struct SpoiltStage {
    explicit SpoiltStage(bool aside) {
        device->aside = aside;
        device->tells_free = true;
        EngineLimits limits = EngineStage::default_limits();
        limits.cache.cache = {64 * kMib, 4, 0, limits.checkpoints.kept};
        limits.cache.verify = true;
        const auto much = [] {
            MemoryReading reading;
            reading.available_bytes = std::uint64_t{1} << 40;
            return reading;
        };
        engine =
            make_engine(std::make_unique<FakeRunner>(kHybrid, device), limits,
                        std::make_shared<StopBoard>(), EngineHost{&segments, {much, [] {}, [] {}}})
                .value();
    }
    // Every answer is that of a model which read the whole prompt itself.
    TokenIds say(const TokenIds& prompt, Heard heard = {}, bool keep = true) {
        auto request = EngineStage::request(prompt);
        request.id = ++requests;
        request.keep = keep;
        auto done = engine->generate(request, heard);
        REQUIRE(done.ok());
        outcome = std::move(done).value();
        CHECK(outcome.finish == FinishReason::length);
        CHECK(heard.answer == fake_answer(kHybrid, prompt, 6));
        CHECK(outcome.prompt_read == outcome.prompt_tokens - outcome.plan.reused);
        return heard.answer;
    }
    void expect(S source, Position reused, MissReason miss) const {
        CHECK(outcome.plan.source == source);
        CHECK(outcome.plan.reused == reused);
        CHECK(outcome.plan.miss == miss);
    }

    OrderedSegments segments;
    std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
    std::unique_ptr<Engine> engine;
    Outcome outcome;
    std::uint64_t requests = 0;
};

TokenIds opening(std::uint64_t seed) {
    return joined({turn(kFakeSystem, 20, 1), turn(kFakeUser, 300, seed), assistant_opens()});
}
Position turn_of(const TokenIds& prompt) {
    return std::ssize(prompt) - std::ssize(assistant_opens());
}

}  // namespace

TEST_CASE("an answer that is asked for again with a spoilt checkpoint comes from an earlier one") {
    const bool aside = GENERATE(false, true);
    SpoiltStage stage(aside);
    const TokenIds a = opening(2);
    stage.say(a);
    stage.engine->leave_device();
    REQUIRE(stage.segments.segments.size() == 2);  // the states at the root and at the turn
    stage.say(a);
    stage.expect(S::turn, turn_of(a), MissReason::none);
    stage.engine->leave_device();
    REQUIRE(stage.segments.segments.size() >= 2);
    spoil(stage.segments.segments[1]);
    if (stage.segments.segments.size() > 2) spoil(stage.segments.segments[2]);
    stage.say(a);
    stage.expect(S::root, kRoot, MissReason::invalid);
    CHECK(stage.outcome.plan.common >= turn_of(a));
    CHECK(stage.outcome.plan.switched);
    CHECK(stage.outcome.checkpoints == 2);  // the turn's is there again
    stage.engine->leave_device();
    for (const auto& segment : stage.segments.segments) spoil(segment);
    stage.say(a);
    stage.expect(S::cold, 0, MissReason::invalid);
    stage.engine->leave_device();
    stage.say(a);
    stage.expect(S::turn, turn_of(a), MissReason::none);
}

TEST_CASE("a conversation comes back though a checkpoint below is spoilt") {
    const bool aside = GENERATE(false, true);
    SpoiltStage stage(aside);
    const TokenIds a = opening(2);
    const TokenIds more = follow_up(a, stage.say(a), 3);
    stage.say(opening(4));
    stage.engine->leave_device();
    spoil(stage.segments.segments[1]);  // the turn's, mapped when it was read
    stage.say(more);
    CHECK(stage.outcome.plan.restored);
    CHECK(stage.outcome.plan.source == S::parked);
    stage.engine->leave_device();
    stage.say(joined({a, {kFakeFirstText}}));  // an edited answer: at the first turn's checkpoint
    CHECK(stage.outcome.plan.reused == kRoot);
    CHECK(stage.outcome.plan.miss == MissReason::invalid);
}

TEST_CASE("a checkpoint that is spoilt between the look and the use is not used") {
    const bool aside = GENERATE(false, true);
    SpoiltStage stage(aside);
    const TokenIds a = opening(2);
    const TokenIds more = follow_up(a, stage.say(a), 3);
    stage.engine->leave_device();
    bool spoilt = false;
    Heard heard;
    heard.on_conversation = [&](const ConversationEvent& event) {
        if (event.step != ConversationStep::park || std::exchange(spoilt, true)) return;
        spoil(stage.segments.segments[0]);  // the root's, where the new chat goes on
    };
    stage.say(opening(5), heard);
    CHECK(spoilt);
    CHECK_FALSE(stage.outcome.plan.restored);
    CHECK(stage.outcome.plan.reused == 0);
    stage.say(more);
    stage.say(opening(6));
    CHECK(stage.outcome.plan.reused == kRoot);  // of the one that was read from its beginning
}

TEST_CASE("a one-shot leaves what is good of the conversation that it was asked in") {
    const bool aside = GENERATE(false, true);
    const bool all = GENERATE(false, true);
    SpoiltStage stage(aside);
    const TokenIds a = opening(2);
    const TokenIds more = follow_up(a, stage.say(a), 3);
    bool spoilt = false;
    Heard heard;
    heard.on_token = [&] {
        if (std::exchange(spoilt, true)) return;
        stage.engine->leave_device();
        const auto& segments = stage.segments.segments;
        for (std::size_t i = all ? 0 : 1; i < segments.size(); ++i) spoil(segments[i]);
    };
    stage.say(more, heard, false);
    CHECK(stage.outcome.checkpoints == (all ? 0 : 1));
    stage.say(a);
    CHECK(stage.outcome.plan.reused == (all ? 0 : kRoot));
    stage.say(more);
    CHECK_FALSE(stage.outcome.plan.switched);
}

}  // namespace strata::tests
