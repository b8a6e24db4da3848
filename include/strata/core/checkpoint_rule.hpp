// Where a conversation is worth resuming, and which of its checkpoints must go: pure functions of
// values. Owns the rule (DETAILS.md, The live conversation); the bytes of a checkpoint are
// state/checkpoints'.
//
// A checkpoint is a position p: the state of a conversation after rows [0, p). A model with
// recurrent layers resumes only at checkpoints and at the live end; an attention-only one anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "strata/core/types.hpp"

namespace strata {

// In order of strength: when two kinds fall on one position, the stronger (later) one names it.
enum class CheckpointKind : std::uint8_t {
    tail,      // the state in which the conversation last rested; beside the capacity, one at most
    interval,  // every so many freshly read tokens
    turn,      // start of the assistant's turn
    root,      // end of system prompt and tools
    pin,       // asked for by the request
};

struct CheckpointMark {
    CheckpointKind kind = CheckpointKind::interval;
    Position position = 0;
    friend bool operator==(const CheckpointMark&, const CheckpointMark&) = default;
};

struct CheckpointLimits {
    std::int64_t kept = 6;                // besides the tail; 0 turns off all reuse
    std::int64_t every_tokens = 16384;    // freshly read tokens between two intervals; 0 = none
    std::int64_t root_min_tokens = 2048;  // a shorter root is read again rather than kept; 0 = none
};

// The parts of a prompt (DETAILS.md, The live conversation).
struct PromptMarks {
    Position root = 0;        // R: end of system prompt and tools
    Position first_turn = 1;  // F: end of the first turn; reuse of fewer tokens is "only the root"
    Position last_turn = 0;   // last turn-open token of the prompt; 0 = none
    Position last_question = 0;  // the one before it: the turn that is answered; 0 = none
    friend bool operator==(const PromptMarks&, const PromptMarks&) = default;
};

// Ids of the vocabulary that tell turns; -1 = the vocabulary has none.
struct TurnWords {
    TokenId turn_open = -1;
    TokenId system_word = -1;
};

// `root` is the request's root=, absent when the request says nothing. Precondition: 0 <= root <=
// size.
[[nodiscard]] PromptMarks mark_prompt(std::span<const TokenId> prompt, std::optional<Position> root,
                                      const TurnWords& words);

// What a request wants kept while its prompt is read from `resume` on.
struct CheckpointWish {
    PromptMarks marks;
    Position resume = 0;
    Position prompt_tokens = 0;
    Position pin = 0;  // 0 = none
    bool keep = true;  // ckpt=1
};

// The fixed positions at which reading must stop to keep a checkpoint, ascending, each once, in
// [resume, prompt_tokens]. Intervals are not among them: they fall on chunk ends (interval_due).
[[nodiscard]] std::vector<CheckpointMark> checkpoints_to_write(const CheckpointWish& wish,
                                                               const CheckpointLimits& limits);

// True when an interval checkpoint is due at a chunk end: `since` is the last interval's position,
// or where reading began.
[[nodiscard]] bool interval_due(Position since, Position chunk_end, const CheckpointWish& wish,
                                const CheckpointLimits& limits);

struct HeldCheckpoint {
    CheckpointMark mark;
    std::uint64_t last_used = 0;  // larger = more recent
};

// Room for one more checkpoint: stored without a victim, stored in the victim's place, or not
// stored because everything held is stronger than the wish.
struct CheckpointRoom {
    bool stored = false;
    std::optional<std::size_t> victim;  // index into `held`
};
// The tail is outside the count and never asks for room. Pins are never victims, the root not while
// two or more are kept; else the least recently used goes.
[[nodiscard]] CheckpointRoom room_for_checkpoint(std::span<const HeldCheckpoint> held,
                                                 const CheckpointLimits& limits);

}  // namespace strata
