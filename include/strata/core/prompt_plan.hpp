// The plan of one request: where reading resumes, what that counts as, why it is a miss, and what
// becomes of the conversation that goes. A pure function of values, made and fixed before anything
// is touched (DETAILS.md, The live conversation; Conversation cache). It moves no byte: engine.cpp
// acts on it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "strata/core/checkpoint_rule.hpp"
#include "strata/core/conversation_cache.hpp"
#include "strata/core/conversation_image.hpp"
#include "strata/core/tombstones.hpp"
#include "strata/core/types.hpp"

namespace strata {

enum class ResumeSource : std::uint8_t {
    cold,
    live,  // the live conversation's state, or on an attention-only model any of its rows
    turn,  // its checkpoints, by kind
    root,
    interval,
    tail,
    pin,
    parked,             // a parked conversation's end; the entry is taken
    parked_checkpoint,  // its deepest checkpoint besides the tail; the entry is taken
    borrowed,           // anything shallower, or an entry that is pinned: it stays parked
    device,             // a taken entry all of whose bytes were still on the device: no plan says
                        // this, it is seen while they come back
};

// Why a switch is no hit. `none` is said of a continuation, of a hit, and of a switch to which no
// reason applies: every id of the prompt is in a conversation that is here, so it is neither new
// nor rewritten, but a hybrid kept no state before the prompt's end (the same short prompt again; a
// chat cut back to a turn whose checkpoint is gone). `common` is the prompt's length then.
enum class MissReason : std::uint8_t {
    none,
    fresh,      // no candidate shares more than the root
    steering,   // only the steering differs
    level,      // the same first turn behind a head that another thinking level rendered
    rewritten,  // the history changed at `common`, and nothing before it can be resumed
    evicted,    // known, and lost that way (tombstones.hpp); this and the rest
    released,
    budget,
    floor,
    invalid,
    identity,
};

// What becomes of the conversation that was live, fixed before anything is touched.
enum class OutgoingFate : std::uint8_t {
    none,          // there is none
    continues,     // it is the request's conversation, and nothing worth keeping is dropped
    park,          // parked, room is made for it
    park_if_free,  // continues, but a rewind drops complete turns: parked only into free room
    superseded,    // the incoming conversation holds all of it: dropped, counted
    one_shot,      // it was ckpt=0: dropped
    incomplete,    // broken off, and no checkpoint to cut it back to: dropped
    dropped,       // no conversation cache
};

// The live conversation as values.
struct LiveView {
    std::span<const TokenId> ids;  // of the rows that are computed
    std::span<const CheckpointMark> checkpoints;
    PromptMarks marks;  // of its last prompt
    Identity identity;
    bool resumes_anywhere = false;  // attention-only model
    bool one_shot = false;          // its request was ckpt=0: neither continued nor parked
    bool incomplete = false;        // broken off inside a chunk: only its checkpoints are good
};

// The parked conversations as values; empty when there is no conversation cache.
struct ParkedView {
    bool enabled = false;
    std::span<const ParkedEntry> entries;
    std::span<const Tombstone> tombstones;
    bool resumes_anywhere = false;  // as LiveView's
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
    Position common = 0;  // longest common prefix with the best candidate: the chosen one, of a
                          // miss the one that shares the most
    std::optional<EntryId> entry;  // the parked entry that reading resumes from
    bool takes = false;            // take() it; else borrow()
    OutgoingFate outgoing = OutgoingFate::none;
    std::optional<Position> cut;  // where the outgoing one is cut back to before it is parked
    friend bool operator==(const PromptPlan&, const PromptPlan&) = default;
};

// `live` is absent when there is no conversation, or reuse is off.
//
// Candidates: the live state, its checkpoints, each parked entry's end and checkpoints. With
// recurrent layers one matches when its identity is equal and all of its ids are a strict prefix of
// the prompt; without, with min(common prefix, prompt - 1) tokens. The longest wins; at equal
// length live, then the most recently parked.
//
// Verdict, F being the prompt's first turn:
//   resumes at the live conversation, at F or beyond    switched 0  restored 0
//   resumes at a parked one, at F or beyond             switched 1  restored 1
//   resumes below F, or reads from token 0              switched 1  restored 0
//
// `spoilt`: tokens of a hit that an earlier plan of this prompt chose, whose bytes turned out not
// to be what they were; 0 = none. It explains a miss.
[[nodiscard]] PromptPlan plan_prompt(const PromptView& prompt, const std::optional<LiveView>& live,
                                     const ParkedView& parked = {}, Position spoilt = 0);

}  // namespace strata
