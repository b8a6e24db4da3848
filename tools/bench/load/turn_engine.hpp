// The load test's engine as a process of its own, behind the line protocol: it answers one request
// after the other, as a real one does, at a fixed rate of tokens, and writes down when it said
// each. What it says is what LanesEngine says, so the same clients check it.
#pragma once

#include <string>

#include "tools/bench/load/server_side.hpp"

namespace strata::bench {

struct TurnPlan {
    std::string times_path;   // a file of the times, see SaidTimes
    std::size_t streams = 0;  // rows of it
    std::size_t tokens = 0;   // columns of it
    double tokens_per_second = 0;
};

// The times in that file, shared with whoever maps it; rows = nullptr when it cannot be mapped.
SaidTimes map_times(const TurnPlan& plan);

// Serves stdin and stdout until stdin ends or QUIT comes; the exit status.
int run_turn_engine(const TurnPlan& plan, const Words& words);

}  // namespace strata::bench
