// A device that fails: wherever in a request that happens, the request is refused as device_lost
// and nothing else is told of it.
#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include <catch2/catch.hpp>

#include "../../support/engine_stage.hpp"
#include "strata/backend/device_fault.hpp"

namespace strata::tests {
namespace {

EngineLimits caching() {
    EngineLimits limits = EngineStage::default_limits();
    limits.cache.cache = {std::uint64_t{64} << 20, 4, 0, limits.checkpoints.kept};
    limits.cache.verify = true;
    return limits;
}

TokenIds opening(std::uint64_t seed) {
    return joined({turn(kFakeSystem, 20, seed), turn(kFakeUser, 300, seed), assistant_opens()});
}

// Two chats change places: read, written, parked, brought back, compared. The device fails from its
// call number `fails_at` on.
struct Play {
    std::atomic<std::int64_t> calls = 0;
    std::optional<Told> refused;
    int answered = 0;

    Play(const FakeShape& shape, std::int64_t fails_at, bool aside = false) {
        EngineStage stage(shape, caching());
        stage.device->aside = aside;
        const auto count = [&] {
            if (++calls >= fails_at) throw DeviceFault("fault " + std::to_string(fails_at));
        };
        stage.device->on_call = count;
        stage.runner->on_pass = [&](const FakePass&) { count(); };
        const TokenIds a = opening(1);
        const TokenIds b = opening(2);
        const TokenIds again = joined(
            {a, fake_answer(shape, a, 6), {kFakeEnd}, turn(kFakeUser, 8, 3), assistant_opens()});
        for (const TokenIds& prompt : {a, b, again}) {
            Told told = stage.run(prompt);
            if (told.refusal) {
                refused = std::move(told);
                return;
            }
            if (told.answer == fake_answer(shape, prompt, 6)) ++answered;
        }
    }
};

}  // namespace

TEST_CASE("a device that fails at any moment refuses the request as device lost") {
    const FakeShape shape = GENERATE(FakeShape{true, 97, 64}, FakeShape{false, 97, 64});
    const Play whole(shape, INT64_MAX);
    REQUIRE(whole.answered == 3);
    REQUIRE(whole.calls > 30);
    for (std::int64_t at = 1; at <= whole.calls; ++at) {
        const Play play(shape, at);
        INFO("the fault comes with call " << at << " of " << whole.calls);
        REQUIRE(play.refused);
        CHECK(play.refused->refusal->code == RefusalCode::device_lost);
        CHECK(play.refused->refusal->text == "fault " + std::to_string(at));
    }
}

TEST_CASE("a device that fails while it copies by itself is never told as anything else") {
    const FakeShape shape = GENERATE(FakeShape{true, 97, 64}, FakeShape{false, 97, 64});
    const Play whole(shape, INT64_MAX, true);
    REQUIRE(whole.answered == 3);
    int lost = 0;
    for (std::int64_t at = 1; at <= whole.calls; ++at) {
        const Play play(shape, at, true);
        INFO("the faults begin with call " << at << " of " << whole.calls);
        // The last copies may have been nobody's any more.
        if (!play.refused) {
            CHECK(play.answered == 3);
            continue;
        }
        ++lost;
        CHECK(play.refused->refusal->code == RefusalCode::device_lost);
        CHECK(play.refused->refusal->text == "fault " + std::to_string(at));
    }
    CHECK(lost > whole.calls / 2);
}

}  // namespace strata::tests
