// A whole conversation as a value: what a snapshot is made of, by name. Owns the rule of when one
// conversation makes another's copy superfluous; the bytes behind the names are engine/state's.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/checkpoint_rule.hpp"
#include "strata/core/host_blob.hpp"
#include "strata/core/types.hpp"

namespace strata {

// What must be equal besides the ids, and what only explains a miss.
struct Identity {
    std::string steering;  // name of the steering mode; empty = off
    std::string
        level;  // thinking level; it acts through the prompt, so it explains and never decides
};

struct ImageCheckpoint {
    CheckpointMark mark;
    std::uint64_t last_used = 0;  // larger = more recent (checkpoint_rule.hpp)
    HostBlob running_state;       // none on an attention-only model
};

// Invariants: (1) ids is not null and not empty; (2) pages[i] holds rows [i x kPageTokens, (i + 1)
// x kPageTokens), the last one perhaps fewer, and together they hold every row; (3) no checkpoint
// lies beyond the end; (4) with recurrent layers end_state and every checkpoint name a blob.
struct ConversationImage {
    std::uint64_t conversation = 0;  // its number, kept through park and restore
    std::string label;               // the server's word for it; empty = none
    std::shared_ptr<const TokenIds> ids;
    Identity identity;
    PromptMarks marks;  // of its last prompt
    std::vector<ImageCheckpoint> checkpoints;
    std::vector<HostBlob> pages;
    HostBlob end_state;
    std::int64_t hits = 0;       // how often it was brought back
    std::int64_t active_ms = 0;  // when it was last active, on the engine's steady clock

    [[nodiscard]] Position end() const { return std::ssize(*ids); }
};

using SharedImage = std::shared_ptr<const ConversationImage>;

// Every blob that the image names, as one holder's list (holder_blobs()).
[[nodiscard]] std::vector<HostBlob> image_blobs(const ConversationImage& image);

// What the supersede rule looks at, of a live conversation or of an image.
struct ConversationOutline {
    std::span<const TokenId> ids;
    std::string_view steering;
    Position first_turn = 1;       // F
    std::vector<Position> points;  // of its checkpoints
    Position deepest = 0;          // its deepest checkpoint besides the tail; 0 = it has none
};

// The result looks into `image`.
[[nodiscard]] ConversationOutline outline_of(const ConversationImage& image);
// `points` and `deepest` from the marks.
[[nodiscard]] ConversationOutline outline_of(std::span<const TokenId> ids,
                                             std::string_view steering, const PromptMarks& marks,
                                             std::span<const CheckpointMark> checkpoints);

// True when `old` is a superfluous copy beside `by`: equal identity, and old's deepest checkpoint
// besides the tail lies at its F or later and is, id for id, one of by's checkpoints or by's end.
// So conversations that share only the root, have no such checkpoint, or branched off stay.
[[nodiscard]] bool superseded(const ConversationOutline& old, const ConversationOutline& by);

// From where on resuming at an attention-only conversation uses it up (a take, not a borrow): the
// start of its last assistant turn; without turns its deepest checkpoint besides the tail; without
// one its end.
[[nodiscard]] Position last_turn_begins(const ConversationImage& image);

}  // namespace strata
