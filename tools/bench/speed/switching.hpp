// Two long conversations that change places, the engine's own way: parked, brought back, and the
// first token of the next turn. Times are the engine's (park_ms and restore_ms of DONE) and, for a
// first token, from generate() to that token.
//
// B of N tokens is read, then A, which parks B whole; A's next turn; B comes back, which parks A
// whole. Then rounds: A comes back, goes on, and B comes back (each is parked again: only what its
// last turns wrote); the first round is not measured. Last, where a device keeps what was parked:
// rounds in which the two come back from there. Every turn reads kNewTokens tokens and writes one,
// and begins when the one before it is in host memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "strata/core/result.hpp"
#include "strata/model/runner.hpp"

namespace strata::bench {

inline constexpr std::int64_t kNewTokens = 46;  // of a turn: what a short question takes

// One figure per measured request.
struct Series {
    const char* name;
    std::int64_t tokens = 0;  // of the conversation, the last time
    std::vector<double> milliseconds{};
    std::vector<double> bytes{};  // that moved; empty: the row is about time alone
};

struct SwitchFigures {
    Series read{"read all"};            // A, until its first token
    Series park{"park all"};            // on the path of the request that takes its place
    Series behind{"park, to the end"};  // from that request's beginning until all is in host memory
    Series park_again{"park again"};    // the same, of one that was parked before
    Series restore{"restore"};          // pages and state, into the device
    Series after{"first token"};        // of a turn whose conversation came back
    Series continued{"continuation"};   // the same turn in the conversation that is live
    Series kept{"first token, kept"};   // as `after`, of one that the device still holds
    Series check{"check + plan"};  // of such a turn: what is neither parking, restoring nor reading

    std::vector<const Series*> rows() const {
        return {&read, &park, &behind, &park_again, &restore, &after, &continued, &kept, &check};
    }
    // By the medians: what a switch costs over a continuation, and how long after the restore the
    // first token comes, parking included.
    double switch_ms() const;
    double behind_restore_ms() const;
};

// Rows that the runner must be loaded for.
std::int64_t switching_rows(std::int64_t tokens, std::int64_t repeat);

// Takes the runner over; its device must outlive the call. `tell` hears of every turn at once, in
// words. Refuses when a conversation was not brought back, and what the engine refuses.
Result<SwitchFigures> measure_switching(std::unique_ptr<Runner> runner, std::int64_t tokens,
                                        std::int64_t chunk, std::int64_t repeat,
                                        const std::function<void(const std::string&)>& tell = {});

void print_switching(const SwitchFigures& figures);
// {"new_tokens", "switch_ms", "behind_restore_ms", "rows": [{"row", "tokens", "ms_median", "ms",
// "bytes"}]}
std::string switching_json(const SwitchFigures& figures);

}  // namespace strata::bench
