// strata-engine-fake as a child process: the engine's whole process around the fake model, whose
// behaviour is its model path (fake_model_engine.cpp).
#pragma once

#include <algorithm>
#include <chrono>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "engine_stage.hpp"
#include "piped_engine.hpp"

namespace strata::tests {

// ThreadSanitizer sleeps a second at the end of a process, to let other threads race.
#ifdef __SANITIZE_THREAD__
inline constexpr std::int64_t kSanitizerMs = 1500;
#else
inline constexpr std::int64_t kSanitizerMs = 0;
#endif

inline const std::string kFakeModelProgram = STRATA_TEST_BIN_DIR "/strata-engine-fake";

inline std::string gen(std::uint64_t id, std::int64_t max_new, const TokenIds& prompt,
                       const std::string& names = "") {
    std::string line = "GEN " + std::to_string(max_new) + " id=" + std::to_string(id) + names;
    line += " ids=";
    for (std::size_t i = 0; i < prompt.size(); ++i) {
        line += (i == 0 ? "" : ",") + std::to_string(prompt[i]);
    }
    return line;
}

inline TokenIds prompt_of(std::int64_t tokens, std::uint64_t seed = 2) {
    return joined({turn(kFakeUser, tokens - 5, seed), assistant_opens()});
}

struct FakeModelProcess : PipedEngine {
    explicit FakeModelProcess(const std::string& model, std::vector<std::string> more = {})
        : PipedEngine(kFakeModelProgram, arguments(model, std::move(more))) {}
    static std::vector<std::string> arguments(const std::string& model,
                                              std::vector<std::string> more) {
        more.insert(more.begin(), {"--model", model, "--chunk-ms", "0", "--chunk-tokens", "64"});
        return more;
    }
    void await_ready() { REQUIRE_FALSE(lines_until("READY").empty()); }
    // Ends it as a server would, and looks at how it went.
    void leave() {
        close_stdin();
        const auto end = wait();
        REQUIRE(end);
        CHECK(end->exited);
        CHECK(end->status == 0);
    }
};

inline std::int64_t ms_since(std::chrono::steady_clock::time_point began) {
    return std::chrono::duration_cast<PipedEngine::Ms>(std::chrono::steady_clock::now() - began)
        .count();
}

// The fewest milliseconds that `round` has taken, of as many rounds as it needs to be in time: a
// loaded machine may be late once, not each time.
template <class Round>
std::int64_t fastest_of(std::int64_t in_time_ms, Round round) {
    constexpr int kRounds = 4;
    std::int64_t fastest = round();
    for (int i = 1; i < kRounds && fastest >= in_time_ms; ++i) fastest = std::min(fastest, round());
    return fastest;
}

}  // namespace strata::tests
