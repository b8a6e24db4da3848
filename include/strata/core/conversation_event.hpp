// One thing that happened to a conversation beside the live one, as a value: told in the order in
// which it happened, to the server as a CONV line and to people as a line on stderr
// (engine/cache_lines.hpp).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/core/conversation_cache.hpp"
#include "strata/core/types.hpp"

namespace strata {

enum class ConversationStep : std::uint8_t {
    park,
    skip,  // not parked: `skip` says why
    restore,
    borrow,
    supersede,  // an older copy was dropped
    evict,      // lost to the budget or the slot count
    release,    // given back to the host under pressure
    drop,       // by command, or because its image is not good
    lost,       // not parked at an exchange
};

struct ConversationEvent {
    ConversationStep step = ConversationStep::park;
    std::optional<EntryId> entry;
    std::uint64_t conversation = 0;
    Position tokens = 0;
    std::uint64_t bytes = 0;         // park: newly written; restore, borrow: moved; else given back
    std::uint64_t shared_bytes = 0;  // park: of pages that were in the books already
    std::optional<double> ms;
    std::optional<ParkSkip> skip;    // of skip and lost
    std::optional<Removal> removal;  // of evict and drop
    bool took_end = false;           // restore: the snapshot's end, not one of its checkpoints
    std::uint64_t needed_bytes = 0;  // skip: new bytes of the image ...
    std::uint64_t free_bytes = 0;    // ... and what was free of
    std::uint64_t budget_bytes = 0;  // ... the budget
    std::optional<std::uint64_t> available_bytes;  // the last reading of the machine's RAM ...
    std::uint64_t floor_bytes = 0;                 // ... and how much of it is left alone
    std::string label;
    // After it:
    std::int64_t parked = 0;           // entries
    std::uint64_t held_bytes = 0;      // that count against the budget
    std::uint64_t retained_bytes = 0;  // of the live conversation's kept K/V, part of held_bytes
    std::int64_t evictions = 0;        // since the engine started
};

}  // namespace strata
