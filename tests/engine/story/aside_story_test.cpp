// The engine on a device that copies by itself: conversations change places while their copies go
// on, and one whose bytes did not stay what they were is read again.
#include <algorithm>
#include <map>
#include <memory>

#include <catch2/catch.hpp>

#include "../../support/engine_stage.hpp"
#include "engine/outcome_to_done.hpp"

namespace strata::tests {
namespace {

constexpr FakeShape kHybrid{true, 97, 64};
constexpr FakeShape kAttention{false, 97, 64};
constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

// The system's, and a list of them.
class ListedSegments : public HostSegments {
  public:
    Result<std::byte*> map(std::size_t bytes) override {
        auto mapped = inner_.map(bytes);
        if (mapped) sizes[*mapped] = bytes;
        return mapped;
    }
    void unmap(std::byte* at, std::size_t bytes) noexcept override {
        sizes.erase(at);
        inner_.unmap(at, bytes);
    }
    void discard(std::byte* at, std::size_t bytes) noexcept override { inner_.discard(at, bytes); }

    std::map<std::byte*, std::size_t> sizes;

  private:
    MappedSegments inner_;
};

// What a request told.
struct Heard : NoEvents {
    void token(TokenId id, const std::optional<TokenReport>&) override { answer.push_back(id); }
    void conversation(const ConversationEvent& event) override { cache.push_back(event); }
    TokenIds answer;
    std::vector<ConversationEvent> cache;
};

MemoryReading much_memory() {
    MemoryReading reading;
    reading.available_bytes = std::uint64_t{1} << 40;
    return reading;
}

struct AsideEngine {
    explicit AsideEngine(const FakeShape& kind) : shape(kind) {
        device->aside = true;
        EngineLimits limits = EngineStage::default_limits();
        limits.cache.cache = {64 * kMib, 4, 0, limits.checkpoints.kept};
        limits.cache.verify = true;
        const EngineHost host{&segments, {&much_memory, [] {}, [] {}}};
        engine = make_engine(std::make_unique<FakeRunner>(shape, device), limits,
                             std::make_shared<StopBoard>(), host)
                     .value();
    }
    Heard say(const TokenIds& prompt) {
        Heard heard;
        auto request = EngineStage::request(prompt);
        request.id = ++requests;
        auto done = engine->generate(request, heard);
        REQUIRE(done.ok());
        outcome = std::move(done).value();
        CHECK(heard.answer == fake_answer(shape, prompt, 6));
        return heard;
    }

    FakeShape shape;
    ListedSegments segments;
    std::shared_ptr<FakeDevice> device = std::make_shared<FakeDevice>();
    std::unique_ptr<Engine> engine;
    Outcome outcome;
    std::uint64_t requests = 0;
};

TokenIds opening(std::uint64_t seed) {
    return joined({turn(kFakeSystem, 20, seed), turn(kFakeUser, 300, seed), assistant_opens()});
}

}  // namespace

TEST_CASE("conversations change places on a device that copies by itself") {
    for (const FakeShape& shape : {kHybrid, kAttention}) {
        for (const bool leaves : {false, true}) {
            AsideEngine stage(shape);
            stage.device->tells_free = true;  // room for all of it
            TokenIds a = opening(1);
            TokenIds b = opening(2);
            a = follow_up(a, stage.say(a).answer, 3);
            b = follow_up(b, stage.say(b).answer, 4);
            for (std::uint64_t round = 0; round < 4; ++round) {
                for (TokenIds* each : {&a, &b}) {
                    if (leaves) stage.engine->leave_device();
                    const Heard heard = stage.say(*each);
                    CHECK(stage.outcome.plan.switched);
                    CHECK(stage.outcome.plan.restored);
                    CHECK(stage.outcome.plan.source ==
                          (leaves ? ResumeSource::parked : ResumeSource::device));
                    *each = follow_up(*each, heard.answer, 10 + round);
                }
            }
        }
    }
}

TEST_CASE("a conversation that did not stay what it was is read again") {
    for (const FakeShape& shape : {kHybrid, kAttention}) {
        AsideEngine stage(shape);
        const TokenIds a = opening(1);
        const TokenIds more = follow_up(a, stage.say(a).answer, 3);
        stage.say(opening(2));
        stage.engine->leave_device();
        CHECK(stage.engine->parking_bytes() == 0);
        for (const auto& [at, bytes] : stage.segments.sizes) {
            for (std::size_t i = 0; i < bytes; i += 64) at[i] ^= std::byte{1};
        }
        const Heard heard = stage.say(more);
        CHECK_FALSE(stage.outcome.plan.restored);
        CHECK(stage.outcome.plan.reused < 20);  // what it shares with another one, at most
        CHECK(stage.outcome.plan.miss == MissReason::invalid);
        CHECK(std::any_of(heard.cache.begin(), heard.cache.end(), [](const auto& event) {
            return event.step == ConversationStep::drop && event.removal == Removal::invalid;
        }));
        // The engine goes on.
        stage.say(opening(5));
        stage.say(follow_up(more, heard.answer, 6));
        CHECK(stage.outcome.plan.restored);
    }
}

TEST_CASE("what the device may keep of parked conversations is told at the start") {
    AsideEngine stage(kAttention);
    stage.device->tells_free = true;
    stage.device->limit_bytes = stage.device->held_bytes() + 40 * kMib;
    CHECK(info_line(*stage.engine, "1").device_pool_mib == 40);  // no limit: what is free

    EngineLimits limits = EngineStage::default_limits();
    limits.cache.cache = {64 * kMib, 4, 0, limits.checkpoints.kept};
    const EngineHost host{&stage.segments, {&much_memory, [] {}, [] {}}};
    for (const bool aside : {true, false}) {
        auto device = std::make_shared<FakeDevice>();
        device->aside = aside;
        device->tells_free = true;
        device->limit_bytes = 100 * kMib;
        limits.cache.device_pool_bytes = 7 * kMib;
        const auto engine = make_engine(std::make_unique<FakeRunner>(kAttention, device), limits,
                                        std::make_shared<StopBoard>(), host)
                                .value();
        CHECK(info_line(*engine, "1").device_pool_mib == (aside ? 7 : 0));
    }
}

}  // namespace strata::tests
