// A stage for stories about the engine: an engine over the fake model, a clock that only tests
// move, prompts made of turns, and what a request told while it ran, as words in order.
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "engine/host/mapped_segments.hpp"
#include "fake_runner.hpp"
#include "strata/engine.hpp"

namespace strata::tests {

// A whole turn: turn-open, role, `words` text ids that depend on `seed`, end of turn.
[[nodiscard]] TokenIds turn(TokenId role, std::int64_t words, std::uint64_t seed);
// Turns one after the other.
[[nodiscard]] TokenIds joined(std::initializer_list<TokenIds> parts);
// The opening of the assistant's turn, with which every prompt ends.
[[nodiscard]] TokenIds assistant_opens();
// The next prompt of a client: what it sent, the answer, and a short question.
[[nodiscard]] TokenIds follow_up(const TokenIds& before, const TokenIds& answer,
                                 std::uint64_t seed);

struct Told {
    std::vector<std::string> events;  // "resume 12 turn", "read 64", "token 17"
    std::vector<TokenReport> reports;
    std::uint64_t resumed_as = 0;  // the conversation
    TokenIds answer;
    Outcome outcome;
    std::optional<RequestRefusal> refusal;
    std::vector<ConversationEvent> cache;
    std::vector<PressureReport> pressure;
};

// Listens to nothing.
struct NoEvents : EngineEvents {
    void resumed(const PromptPlan&, std::uint64_t) override {}
    void progress(Position, double, double) override {}
    void token(TokenId, const std::optional<TokenReport>&) override {}
    void step() override {}
    void conversation(const ConversationEvent&) override {}
    void pressure(const PressureReport&, double) override {}
};

class EngineStage {
  public:
    explicit EngineStage(const FakeShape& shape, EngineLimits limits = default_limits());
    // Room for 4096 tokens, a root from 8 tokens on, no intervals, chunks of a fixed size.
    static EngineLimits default_limits();

    Told run(GenerateRequest request);
    // The usual request: greedy, of `max_new` tokens.
    Told run(const TokenIds& prompt, std::int64_t max_new = 6);
    static GenerateRequest request(const TokenIds& prompt, std::int64_t max_new = 6);
    // What engines of a test are lent: real segments, and the RAM that the test says there is.
    EngineHost host();

    MappedSegments segments;
    std::optional<std::uint64_t> available_bytes = std::uint64_t{1} << 40;
    int readings = 0;
    int settled = 0;
    int pauses = 0;
    std::function<void()> on_pause;  // after each

    std::shared_ptr<FakeDevice> device;
    FakeRunner* runner = nullptr;  // the engine's
    std::shared_ptr<StopBoard> board;
    std::unique_ptr<Engine> engine;
    std::shared_ptr<TimePoint> now;
    std::function<void()> on_step;                     // at each sign of life
    std::function<void(const std::string&)> on_event;  // after each event that a request tells
};

}  // namespace strata::tests
