// A device that fails: wherever in a request that happens, the request is refused as device_lost
// and nothing else is told of it.
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

// Two chats change places: read, written, parked, brought back, compared. The device fails at its
// call number `fails_at`.
struct Play {
    std::int64_t calls = 0;
    std::optional<Told> refused;
    int answered = 0;

    Play(const FakeShape& shape, std::int64_t fails_at) {
        EngineStage stage(shape, caching());
        const auto count = [&] {
            if (++calls == fails_at) throw DeviceFault("fault " + std::to_string(fails_at));
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
            ++answered;
        }
    }
};

}  // namespace

TEST_CASE("a device that fails at any moment refuses the request as device lost") {
    const FakeShape shape = GENERATE(FakeShape{true, 97, 64}, FakeShape{false, 97, 64});
    const Play whole(shape, -1);
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

}  // namespace strata::tests
