// The pure policies: when to start again, who is alive, what is told about an end.
#include "serve/supervisor/restart_policy.hpp"

#include <filesystem>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>

#include "serve/supervisor/liveness.hpp"

using namespace strata::serve;
using std::chrono::minutes;
using std::chrono::seconds;

namespace {

EngineEnd end_in(EnginePhase phase) {
    return {phase, true, std::nullopt};
}

constexpr double kMiddle = 0.5;
const TimePoint kNow{std::chrono::hours(5)};

}  // namespace

TEST_CASE("a load that always fails waits 0 1 2 5 10 30 60 seconds and then gives up") {
    const RestartLimits limits;
    RestartRecord record;
    std::vector<std::int64_t> waits;
    for (int i = 0; i < 7; ++i) {
        const auto decision = decide_restart(record, end_in(EnginePhase::load), limits, kMiddle);
        REQUIRE(decision.again);
        waits.push_back(decision.wait.count() / 1000);
        record = decision.record;
    }
    CHECK(waits == std::vector<std::int64_t>{0, 1, 2, 5, 10, 30, 60});
    CHECK_FALSE(decide_restart(record, end_in(EnginePhase::load), limits, kMiddle).again);
}

TEST_CASE("a program that cannot be executed counts as a failed load") {
    RestartRecord record{7, 7};
    CHECK_FALSE(decide_restart(record, end_in(EnginePhase::spawn), {}, kMiddle).again);
}

TEST_CASE("crashes of ready engines are restarted for ever with the longest wait at the end") {
    RestartRecord record;
    for (int i = 0; i < 100; ++i) {
        const EngineEnd end{EnginePhase::decode, true, seconds(1)};
        const auto decision = decide_restart(record, end, {}, kMiddle);
        REQUIRE(decision.again);
        record = decision.record;
        if (i >= 6) CHECK(decision.wait == seconds(60));
    }
}

TEST_CASE("ten healthy minutes end the row of failures and nine do not") {
    const RestartRecord record{5, 0};
    const EngineEnd healthy{EnginePhase::idle, true, minutes(10)};
    CHECK(decide_restart(record, healthy, {}, kMiddle).wait == seconds(0));
    CHECK(decide_restart(record, healthy, {}, kMiddle).record == RestartRecord{1, 0});
    const EngineEnd unhealthy{EnginePhase::idle, true, minutes(10) - Milliseconds(1)};
    CHECK(decide_restart(record, unhealthy, {}, kMiddle).wait == seconds(30));
}

TEST_CASE("an end that is not retryable is final at once") {
    CHECK_FALSE(decide_restart({}, {EnginePhase::load, false, std::nullopt}, {}, kMiddle).again);
}

TEST_CASE("jitter changes a wait by at most a tenth and never a wait of nothing") {
    const RestartRecord record{4, 0};
    const EngineEnd end{EnginePhase::idle, true, seconds(3)};
    CHECK(decide_restart(record, end, {}, 0.0).wait == Milliseconds(9000));
    CHECK(decide_restart(record, end, {}, 0.999).wait <= Milliseconds(11000));
    CHECK(decide_restart(record, end, {}, 0.999).wait >= Milliseconds(10900));
    CHECK(decide_restart({}, end, {}, 0.0).wait == Milliseconds(0));
}

TEST_CASE("a PING without answer for thirty seconds is no life") {
    SignsOfLife signs;
    signs.last_pong = kNow;
    CHECK(judge(signs, {}, kNow + seconds(30) - Milliseconds(1)) == Liveness::alive);
    CHECK(judge(signs, {}, kNow + seconds(30)) == Liveness::no_pong);
}

TEST_CASE("a request that does not move for three hundred seconds is no life") {
    SignsOfLife signs;
    signs.last_pong = kNow + seconds(299);
    signs.last_progress = kNow;
    CHECK(judge(signs, {}, kNow + seconds(299)) == Liveness::alive);
    CHECK(judge(signs, {}, kNow + seconds(300)) == Liveness::no_progress);
}

TEST_CASE("a load that does not move for three hundred seconds is stalled") {
    SignsOfLife signs;
    signs.last_load_progress = kNow;
    CHECK(judge(signs, {}, kNow + seconds(300)) == Liveness::load_stalled);
}

TEST_CASE("without signs there is nothing to judge and nothing to look at") {
    CHECK(judge({}, {}, kNow) == Liveness::alive);
    CHECK_FALSE(ping_due({}, {}, kNow));
    CHECK_FALSE(next_look({}, {}));
}

TEST_CASE("the next look is the earliest of the limits") {
    SignsOfLife signs;
    signs.last_ping = kNow;
    signs.last_pong = kNow - seconds(1);
    signs.last_progress = kNow - seconds(298);
    CHECK(next_look(signs, {}) == kNow + seconds(2));
    signs.last_progress.reset();
    CHECK(next_look(signs, {}) == kNow + seconds(5));
    CHECK_FALSE(ping_due(signs, {}, kNow + Milliseconds(4999)));
    CHECK(ping_due(signs, {}, kNow + seconds(5)));
}

TEST_CASE("the time left of a load follows from its average speed") {
    CHECK(load_time_left(seconds(10), 25, 100) == seconds(30));
    CHECK(load_time_left(seconds(10), 100, 100) == seconds(0));
    CHECK(load_time_left(seconds(10), 150, 100) == seconds(0));
    CHECK_FALSE(load_time_left(seconds(10), 0, 100));
    CHECK_FALSE(load_time_left(seconds(0), 5, 100));
}

TEST_CASE("row C15 no deadline of this room reads the wall clock") {
    int files = 0;
    for (const auto& entry :
         std::filesystem::directory_iterator(STRATA_SOURCE_DIR "/serve/supervisor")) {
        std::ostringstream text;
        text << std::ifstream(entry.path()).rdbuf();
        INFO(entry.path().string());
        CHECK(text.str().find("system_clock") == std::string::npos);
        CHECK(text.str().find("CLOCK_REALTIME") == std::string::npos);
        ++files;
    }
    CHECK(files > 20);
}
