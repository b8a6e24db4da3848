// Requests that ask for a way to steer: what each computes with, and that nothing which was
// computed with another one is ever reused. The fake model's hashes hold the steering mode.
#include <catch2/catch.hpp>

#include "../../support/engine_stage.hpp"

namespace strata::tests {
namespace {

constexpr FakeShape kHybrid{true, 97, 64};
constexpr FakeShape kAttention{false, 97, 64};
constexpr std::uint64_t kMib = std::uint64_t{1} << 20;

const SteeringMode kWind{"wind", "content of wind"};
const SteeringMode kRain{"rain", "content of rain"};

EngineLimits caching() {
    EngineLimits limits = EngineStage::default_limits();
    limits.cache.cache = {64 * kMib, 4, 0, limits.checkpoints.kept};
    limits.cache.verify = true;
    return limits;
}

struct SteeredChat {
    explicit SteeredChat(const FakeShape& kind, EngineLimits limits = caching())
        : shape(kind), stage(kind, limits) {
        stage.runner->modes = {kWind, kRain};
    }
    // The answer must be that of a model which read everything with this mode and no other.
    Told say(const TokenIds& prompt, const SteeringMode& mode = {}) {
        GenerateRequest request = EngineStage::request(prompt);
        request.identity.steering = mode.name;
        Told told = stage.run(request);
        CHECK_FALSE(told.refusal);
        CHECK(told.answer == fake_answer(shape, prompt, request.max_new, {}, mode));
        return told;
    }
    FakeShape shape;
    EngineStage stage;
};

TokenIds opening(std::uint64_t seed) {
    return joined({turn(kFakeSystem, 20, seed), turn(kFakeUser, 300, seed), assistant_opens()});
}

}  // namespace

TEST_CASE("a changed steering mode is read from the start and the mode before comes back whole") {
    for (const FakeShape& shape : {kHybrid, kAttention}) {
        SteeredChat chat(shape);
        const TokenIds a = opening(1);
        const Told first = chat.say(a);
        const TokenIds a2 = follow_up(a, first.answer, 2);
        const Told steered = chat.say(a2, kWind);
        CHECK(steered.outcome.plan.switched);
        CHECK(steered.outcome.plan.reused == 0);
        CHECK(steered.outcome.plan.miss == MissReason::steering);
        CHECK(steered.outcome.cache.parked == 1);
        const Told back = chat.say(a2);
        CHECK(back.outcome.plan.switched);
        CHECK(back.outcome.plan.restored);
        CHECK(back.outcome.plan.reused >= std::ssize(a));
        const Told other = chat.say(follow_up(a2, steered.answer, 3), kWind);
        CHECK(other.outcome.plan.restored);
        CHECK(other.outcome.plan.reused >= std::ssize(a2));
    }
}

TEST_CASE("two steering modes are as far apart as one and none") {
    SteeredChat chat(kHybrid);
    const TokenIds a = opening(1);
    const Told wind = chat.say(a, kWind);
    const Told rain = chat.say(a, kRain);
    CHECK(rain.outcome.plan.reused == 0);
    CHECK(rain.outcome.plan.miss == MissReason::steering);
    CHECK(wind.answer != rain.answer);
    const Told again = chat.say(follow_up(a, rain.answer, 2), kRain);
    CHECK_FALSE(again.outcome.plan.switched);
    CHECK(again.outcome.plan.reused >= std::ssize(a));
}

TEST_CASE("without the cache a changed steering mode reuses nothing either") {
    SteeredChat chat(kAttention, EngineStage::default_limits());
    const TokenIds a = opening(1);
    const Told first = chat.say(a, kWind);
    const Told off = chat.say(follow_up(a, first.answer, 2));
    CHECK(off.outcome.plan.reused == 0);
    CHECK(off.outcome.plan.miss == MissReason::steering);
}

TEST_CASE("an unknown steering mode is refused with those that are known and changes nothing") {
    SteeredChat chat(kHybrid);
    const TokenIds a = opening(1);
    const Told first = chat.say(a, kWind);
    GenerateRequest request = EngineStage::request(a);
    request.identity.steering = "storm";
    const Told refused = chat.stage.run(request);
    REQUIRE(refused.refusal);
    CHECK(refused.refusal->code == RefusalCode::bad_field);
    CHECK(refused.refusal->text == "steer is storm, allowed: off, wind, rain");
    const Told next = chat.say(follow_up(a, first.answer, 2), kWind);
    CHECK_FALSE(next.outcome.plan.switched);
    CHECK(next.outcome.plan.reused >= std::ssize(a));
}

TEST_CASE("a snapshot of another content under the same name is refused and read again") {
    SteeredChat chat(kHybrid);
    const TokenIds a = opening(1);
    const Told first = chat.say(a, kWind);
    (void)chat.say(opening(2));
    // As if the file behind the name had changed.
    const SteeringMode changed{"wind", "another content"};
    chat.stage.runner->modes = {changed};
    const Told next = chat.say(follow_up(a, first.answer, 3), changed);
    CHECK(next.outcome.plan.reused == 0);
    CHECK(next.outcome.plan.miss == MissReason::identity);
}

}  // namespace strata::tests
