// The conversation cache: which conversations stay parked in host RAM, and which must go. One class
// over values: it knows names, sizes and references of host memory (host_blob.hpp) and never the
// bytes; the caller (engine.cpp) moves those as it is told (DETAILS.md, Conversation cache).
//
// Every step returns what it removed; ids in `left` are named by nothing in these books any more,
// and the owner of the bytes lets go of them (a live session may still hold a checkpoint's image).
//
// The order of one request that switches (the plan is prompt_plan.hpp's, made before):
//
//   discard() and plan again        the chosen image failed its checks
//   take() or borrow()              what comes back; a taken image is in flight until set_live()
//   admit()                         room for the outgoing one: frees `left`, then capture, then
//     commit() or abort()             in the books, or not at all
//   (restore)                       the bytes move
//   set_live()                      who is live now
//
// set_live() is also due after each rewind, each reset and each end of a request: whenever the live
// session's clean pages or checkpoints changed.
//
// bytes() counts, each blob once: the parked entries; retained K/V, which is the clean pages of the
// live conversation that no entry names; an image in flight; the image that is being captured.
// Checkpoint images of the live conversation are not in the books until it is parked.
//
// Numbered invariants (cache_invariants_test.cpp has tests of the same numbers):
//   (1) bytes() <= budget after every step, and at every instant of a step: what goes leaves before
//       what comes is captured
//   (2) entries <= slots
//   (3) an entry is in the recency order exactly once: entries() is that order, oldest first
//   (4) no parked entry is superseded by another one, or by the live conversation of the last
//       set_live(); pinned entries are outside the rule, and so is the guarded donor of a request
//       until its set_live()
//   (5) evictions only grow
//   (6) budget 0, slots 0 or prompt-cache 0: nothing is stored, every call is a no-op
//   (7) a blob's count equals the number of holders that name it: parked entries, the live
//       conversation, an image in flight, a capture
//   (8) what take() and borrow() hand back is what was parked, name for name
//   (9) a failed step leaves the books as they were: a refused admission evicts nothing, an aborted
//       one leaves what it had reached (evictions made room before the capture began), and a step
//       that throws std::bad_alloc changed nothing
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "strata/core/conversation_image.hpp"
#include "strata/core/host_blob.hpp"
#include "strata/core/host_memory.hpp"
#include "strata/core/tombstones.hpp"

namespace strata {

using EntryId = std::uint64_t;  // of a parked entry; counted from 1, larger = parked later

struct CacheLimits {
    std::uint64_t budget_bytes = 0;     // --conversation-cache-mib; 0 = off
    std::int64_t slots = 0;             // --conversation-cache-slots; 0 = off
    std::uint64_t floor_bytes = 0;      // --conversation-cache-min-free-mib
    std::int64_t checkpoints_kept = 0;  // --prompt-cache; 0 = off

    [[nodiscard]] bool enabled() const {
        return budget_bytes > 0 && slots > 0 && checkpoints_kept > 0;
    }
};

// Why an outgoing conversation was not parked. one_shot, incomplete and allocation are said by the
// caller; the rest by admit() and commit().
enum class ParkSkip : std::uint8_t {
    budget,
    too_large,  // it would not fit an empty cache
    slots,
    floor,
    unknown_reading,
    one_shot,
    incomplete,
    allocation,
};

struct ParkedEntry {
    EntryId entry = 0;
    SharedImage image;
    std::uint64_t bytes = 0;  // of its blobs, shared ones included
    std::int64_t hits = 0;    // the image's, and how often it was borrowed since
    bool pinned = false;      // by command: never evicted, released, superseded or taken
    std::int64_t active_ms = 0;
};

enum class Removal : std::uint8_t {
    budget,      // evicted for room
    slots,       // evicted for a place
    superseded,  // an older copy of a conversation that is here
    released,    // given back to the host
    command,     // CACHE drop or clear
    invalid,     // its image failed its checks
    identity,    // its image belongs to other weights or settings
};

struct RemovedEntry {
    EntryId entry = 0;
    Removal why = Removal::command;
    SharedImage image;
    std::uint64_t bytes = 0;  // given back: what no other holder named
};

// What a step did to the books.
struct BookChange {
    std::vector<RemovedEntry> removed;  // in the order in which they went
    std::vector<HostBlobId> left;       // ascending, each once
    std::uint64_t retained_bytes = 0;   // of `left`: clean pages that the live conversation gave up
};

struct ParkRequest {
    SharedImage image;      // complete: every blob named, whether it is filled yet or not
    MemoryReading reading;  // taken now
    std::optional<EntryId> guarded =
        std::nullopt;             // stays, whatever happens: the donor of this request
    bool only_free_room = false;  // nothing goes for it (a branch that a rewind leaves behind)
};

struct Admission {
    bool admitted = false;         // true: capture, then commit() or abort()
    EntryId entry = 0;             // its number once it is committed
    std::optional<ParkSkip> skip;  // why not; absent also when the cache is off or `superseded`
    bool superseded = false;       // a parked entry holds all of it: counted, not parked
    std::uint64_t new_bytes = 0;   // not in the books before
    std::uint64_t shared_bytes = 0;
    std::uint64_t free_bytes = 0;  // budget less bytes() when it was refused
    BookChange change;
};

struct Commit {
    bool parked = false;
    std::optional<ParkSkip> skip;  // floor or unknown_reading: the capture brought RAM too low
    BookChange change;
};

// The live conversation as the books see it.
struct LiveHolding {
    ConversationOutline outline;        // ids empty: there is none
    std::vector<HostBlob> clean_pages;  // host pages that hold the same bytes as its device pages
};

// Totals since the engine started.
struct CacheCounters {
    std::int64_t evicted_budget = 0;
    std::int64_t evicted_slots = 0;
    std::int64_t released = 0;
    std::int64_t superseded = 0;
    std::int64_t lost = 0;  // not parked because an incoming image was held beside it

    [[nodiscard]] std::int64_t evictions() const { return evicted_budget + evicted_slots; }
    friend bool operator==(const CacheCounters&, const CacheCounters&) = default;
};

class ConversationCache {
  public:
    explicit ConversationCache(const CacheLimits& limits);

    [[nodiscard]] const CacheLimits& limits() const { return limits_; }
    [[nodiscard]] bool enabled() const { return limits_.enabled(); }
    // Oldest first: the recency order.
    [[nodiscard]] std::span<const ParkedEntry> entries() const { return books_.entries; }
    [[nodiscard]] const ParkedEntry* find(EntryId entry) const;
    [[nodiscard]] std::uint64_t bytes() const { return books_.ledger.bytes(); }
    [[nodiscard]] std::uint64_t retained_bytes() const;
    // What dropping it would give back. Precondition: it is parked.
    [[nodiscard]] std::uint64_t unique_bytes(EntryId entry) const;
    // Entries that release_oldest() could take.
    [[nodiscard]] std::int64_t releasable(std::optional<EntryId> guarded) const;
    [[nodiscard]] const CacheCounters& counters() const { return books_.counters; }
    [[nodiscard]] std::span<const Tombstone> tombstones() const { return tombstones_.list(); }
    [[nodiscard]] const HostLedger& ledger() const { return books_.ledger; }
    // True while a holder names it: the owner of bytes may sweep by it after a failure.
    [[nodiscard]] bool names(HostBlobId id) const { return books_.ledger.count(id) > 0; }
    [[nodiscard]] bool in_flight() const { return books_.incoming.has_value(); }
    [[nodiscard]] bool capturing() const { return books_.capture.has_value(); }

    // The entry leaves the table; its image stays counted until set_live(). Null, and nothing
    // changed, when there is no such entry or it is pinned. Precondition: nothing is in flight.
    [[nodiscard]] SharedImage take(EntryId entry);
    // The image of an entry that stays, and becomes the most recently active. Null when there is no
    // such entry.
    [[nodiscard]] SharedImage borrow(EntryId entry, std::int64_t now_ms);
    // The entry that take() took is back in its place. False, and nothing changed, when something
    // was committed since: its place may be gone. Precondition: an image is in flight.
    bool undo_take() noexcept;

    // Room for an outgoing conversation: retained K/V goes first (never the image's own pages),
    // then the least recently active entries that are neither pinned nor guarded. All or nothing. A
    // refusal leaves a tombstone. Precondition: no capture is under way.
    [[nodiscard]] Admission admit(const ParkRequest& request);
    // The bytes are captured; `after` is a reading taken since. The entry becomes the most recently
    // active and supersedes. When the floor is not kept, it is given up again. Precondition: a
    // capture.
    [[nodiscard]] Commit commit(const MemoryReading& after);
    // The capture failed (no memory): what only it named leaves, ascending. Leaves a tombstone.
    // Precondition: a capture.
    [[nodiscard]] std::vector<HostBlobId> abort() noexcept;

    // Who is live now. Ends what was in flight; entries that the live conversation supersedes go.
    // Precondition: no capture is under way; each page is in the books.
    BookChange set_live(const LiveHolding& live);
    // As set_live() of nobody, also in the midst of a failed request: ends a capture as well, and
    // puts a taken entry back where that can be. Allocates nothing; the owner of bytes sweeps by
    // names().
    void forget_live() noexcept;

    // An outgoing conversation that the plan found superseded by the incoming one was dropped.
    void count_superseded() { books_.counters.superseded += enabled() ? 1 : 0; }
    // The chosen entry is no good (invalid or identity). Nothing when it is gone.
    BookChange discard(EntryId entry, Removal why);

    // Memory pressure. The least recently active entry that is neither pinned nor guarded; counted
    // as released. No entry removed: there is none.
    BookChange evict_oldest(std::optional<EntryId> guarded);
    // Clean pages that only the live conversation refers to.
    BookChange release_retained();

    // CACHE pin, unpin, drop, clear. False: there is no such entry. An unpinned entry that another
    // one supersedes goes. clear() takes the pinned ones too.
    bool pin(EntryId entry);
    [[nodiscard]] std::optional<BookChange> unpin(EntryId entry);
    [[nodiscard]] std::optional<BookChange> drop(EntryId entry);
    BookChange clear();

  private:
    struct Capture {
        ParkedEntry entry;
        std::vector<HostBlobId> ids;       // of the image, ascending
        std::vector<HostBlobId> only_ids;  // of those, what nobody else names
        Tombstone stone;                   // made beforehand: abort() must not need memory
        std::optional<EntryId> guarded;
    };
    struct Incoming {
        ParkedEntry entry;
        std::vector<HostBlobId> ids;
        std::size_t newer = 0;  // entries that were more recently active
        bool committed_since = false;
    };
    struct Books {
        std::vector<ParkedEntry> entries;  // oldest first
        HostLedger ledger;
        std::vector<HostBlobId> live;  // clean pages, ascending
        std::optional<Incoming> incoming;
        std::optional<Capture> capture;
        std::optional<EntryId> spared;  // superseded, but the donor of the request under way
        CacheCounters counters;
        EntryId last_entry = 0;
    };
    // A step works on a copy of the books and puts it in place at its end, which cannot fail: so a
    // step is done whole or not at all.
    struct Draft;

    [[nodiscard]] Draft draft() const;
    BookChange put_in_place(Draft&& draft);
    [[nodiscard]] Admission refuse(const ParkRequest& request, Admission admission, ParkSkip why);

    CacheLimits limits_;
    Books books_;
    Tombstones tombstones_;
};

}  // namespace strata
