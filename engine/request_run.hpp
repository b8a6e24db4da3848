// One request while it runs: what the steps of its story tell each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "strata/core/prompt_plan.hpp"
#include "strata/core/stop_board.hpp"
#include "strata/core/types.hpp"
#include "strata/engine.hpp"

namespace strata {

// A request's place on the board while it runs.
struct BoardPlace {
    BoardPlace(StopBoard& on, std::uint64_t id) : board(on), flag(on.begin(id)) {}
    ~BoardPlace() { board.end(); }
    BoardPlace(const BoardPlace&) = delete;
    BoardPlace& operator=(const BoardPlace&) = delete;

    StopBoard& board;
    StopBoard::Flag flag;
};

// One request while it runs.
struct Run {
    const GenerateRequest& request;
    EngineEvents& events;
    StopBoard::Flag stop;
    TimePoint began;
    TimePoint reading_began{};
    TimePoint told{};         // its progress, the last time
    TimePoint chunk_began{};  // the chunk that is being read
    TimePoint looked{};       // at what came meanwhile
    PromptMarks marks{};
    std::string_view steering{};  // what the request's mode adds: its fingerprint; empty = nothing
    Position spoilt = 0;          // tokens of a planned hit that turned out not to be what it was
    bool lost = false;            // what the plan goes on from turned out not to be what it was
    Outcome outcome{};

    bool stopped() const { return *stop; }
    void note_spoilt() {
        const PromptPlan& plan = outcome.plan;
        if (plan.restored || !plan.switched) spoilt = std::max(spoilt, plan.reused);
    }
};

}  // namespace strata
