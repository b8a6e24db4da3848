// The engine's process on the fake model where something is as bad as it gets: a chunk that takes
// longer than a server's patience between two signs of life, and books that are wrong.
#include <algorithm>

#include "../../support/fake_model_process.hpp"

namespace strata::tests {

using Ms = PipedEngine::Ms;
using Clock = std::chrono::steady_clock;

TEST_CASE("a chunk of twelve seconds shows every five that it lives and answers PING") {
    FakeModelProcess engine("hybrid,layers=40,layer_ms=300,slow_from=64");
    engine.await_ready();
    engine.send(gen(3, 1, prompt_of(100)));
    REQUIRE_FALSE(engine.lines_until("PP 64 100 ").empty());
    auto last = Clock::now();
    const auto began = last;
    int signs = 0;
    int pongs = 0;
    std::int64_t fastest = INT64_MAX;
    while (ms_since(began) < 9000) {
        engine.send("PING " + std::to_string(pongs));
        const auto asked = Clock::now();
        const auto lines = engine.lines_until("PONG " + std::to_string(pongs));
        REQUIRE_FALSE(lines.empty());
        fastest = std::min(fastest, ms_since(asked));
        ++pongs;
        for (const std::string& line : lines) {
            if (line.starts_with("PONG")) continue;
            // No new position: it is the last whole one.
            CHECK(line.starts_with("PP 64 100 "));
            CHECK(named(line, "id") == "3");
            CHECK(ms_since(last) <= 5000);
            last = Clock::now();
            ++signs;
        }
    }
    CHECK(signs >= 2);
    CHECK(fastest < 1500);  // a layer is 300 ms
    engine.send("STOP id=3");
    const auto stopped = Clock::now();
    const auto done = engine.lines_until("DONE");
    REQUIRE_FALSE(done.empty());
    CHECK(ms_since(stopped) < 2500);  // before the chunk is over
    CHECK(field(done.back(), 5) == "cancel");
    CHECK(field(done.back(), 14) == "64");
    // What was given up inside the chunk is not believed.
    engine.send(gen(4, 1, prompt_of(20, 9)));
    CHECK(field(engine.lines_until("DONE").back(), 5) == "length");
    engine.leave();
}

TEST_CASE("an end of input inside a long chunk ends the request as cancelled and in time") {
    constexpr std::int64_t kInTimeMs = 1500 + kSanitizerMs;
    CHECK(fastest_of(kInTimeMs, [] {
              FakeModelProcess engine("hybrid,layers=200,layer_ms=100,slow_from=64");
              engine.await_ready();
              engine.send(gen(3, 1, prompt_of(100)));
              REQUIRE_FALSE(engine.lines_until("PP 64 100 ").empty());
              REQUIRE_FALSE(engine.lines_until("PP 64 100 ").empty());  // 2.5 s later
              const auto began = Clock::now();
              engine.close_stdin();
              const auto done = engine.lines_until("DONE");
              const auto end = engine.wait();
              const auto took = ms_since(began);
              REQUIRE_FALSE(done.empty());
              CHECK(field(done.back(), 5) == "cancel");
              REQUIRE(end);
              CHECK(end->status == 0);
              return took;
          }) < kInTimeMs);
}

TEST_CASE("a broken invariant ends the process at once with status 70 and says which") {
    // The model's state grows under the engine: a checkpoint of the old size no longer fits.
    FakeModelProcess engine("hybrid,state_grows_at=90");
    engine.await_ready();
    const TokenIds prompt = prompt_of(100);
    engine.send(gen(1, 3, prompt));
    const auto first = engine.lines_until("DONE");
    REQUIRE_FALSE(first.empty());
    CHECK(field(first.back(), 5) == "length");
    engine.send(gen(2, 3, prompt));  // resumes at the turn's checkpoint
    const auto end = engine.wait();
    REQUIRE(end);
    CHECK(end->exited);
    CHECK(end->status == 70);
    CHECK(engine.rest().empty());  // no answer is better than a wrong one
    CHECK_THAT(engine.stderr_text(), Catch::Contains("broken invariant") &&
                                         Catch::Contains("state_bytes") &&
                                         Catch::Contains("live_session.cpp"));
}

TEST_CASE("a device that fails ends the engine with its fatal line and status 5") {
    FakeModelProcess engine("hybrid,device_lost_at=64");
    engine.await_ready();
    engine.send(gen(1, 3, prompt_of(20)));
    REQUIRE_FALSE(engine.lines_until("DONE").empty());
    engine.send(gen(2, 3, prompt_of(200, 9)));
    const auto end = engine.wait();
    REQUIRE(end);
    CHECK(end->exited);
    CHECK(end->status == 5);
    const auto lines = engine.rest();
    REQUIRE_FALSE(lines.empty());
    CHECK(lines.back() == "ERR device_lost id=2 fatal=1 text=the fake device fell off the bus");
    for (const std::string& line : lines) CHECK_FALSE(line.starts_with("DONE"));
    CHECK_THAT(engine.stderr_text(),
               Catch::Contains("strata-engine: the fake device fell off the bus"));
}

TEST_CASE("a device that fails before the first request is no usable device") {
    FakeModelProcess engine("hybrid,device_lost_at=0", {"--chunk-ms", "250"});
    const auto end = engine.wait();
    REQUIRE(end);
    CHECK(end->exited);
    CHECK(end->status == 4);
    for (const std::string& line : engine.rest()) CHECK(line.starts_with("LOAD"));
    CHECK_THAT(engine.stderr_text(),
               Catch::Contains("the device failed: the fake device fell off the bus"));
}

}  // namespace strata::tests
