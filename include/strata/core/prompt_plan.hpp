// The plan of one request: where reading resumes, what that counts as, and why it is a miss. A pure
// function of values, made and fixed before anything is touched (DETAILS.md, The live
// conversation). It moves no byte: engine.cpp acts on it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "strata/core/checkpoint_rule.hpp"
#include "strata/core/types.hpp"

namespace strata {

enum class ResumeSource : std::uint8_t { cold, live, turn, root, interval, tail, pin };

// Why a switch is no hit. `none` is said of a continuation, and of a switch to which no reason
// applies: every id of the prompt is in the live conversation, so it is neither new nor rewritten,
// but a hybrid kept no state before the prompt's end (the same short prompt again; a chat cut back
// to a turn whose checkpoint is gone). `common` is the prompt's length then.
enum class MissReason : std::uint8_t {
    none,
    fresh,      // no candidate shares more than the root
    steering,   // only the steering differs
    level,      // the same first turn behind a head that another thinking level rendered
    rewritten,  // the history changed at `common`, and nothing before it can be resumed
};

// What must be equal besides the ids, and what only explains a miss.
struct Identity {
    std::string steering;  // name of the steering mode; empty = off
    std::string
        level;  // thinking level; it acts through the prompt, so it explains and never decides
};

// The live conversation as values.
struct LiveView {
    std::span<const TokenId> ids;  // of the rows that are computed
    std::span<const CheckpointMark> checkpoints;
    PromptMarks marks;  // of its last prompt
    Identity identity;
    bool resumes_anywhere = false;  // attention-only model
};

struct PromptView {
    std::span<const TokenId> ids;  // at least one
    PromptMarks marks;
    Identity identity;
};

struct PromptPlan {
    ResumeSource source = ResumeSource::cold;
    Position reused = 0;    // tokens that are not read again; 0 <= reused < prompt tokens
    bool switched = true;   // not a continuation of the live conversation
    bool restored = false;  // came back from a parked snapshot with at least F tokens
    MissReason miss = MissReason::fresh;
    Position common = 0;  // longest common prefix with the best candidate
    friend bool operator==(const PromptPlan&, const PromptPlan&) = default;
};

// `live` is absent when there is no conversation, or reuse is off.
[[nodiscard]] PromptPlan plan_prompt(const PromptView& prompt, const std::optional<LiveView>& live);

}  // namespace strata
