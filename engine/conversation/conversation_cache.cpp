// See core/conversation_cache.hpp.
#include "strata/core/conversation_cache.hpp"

#include <algorithm>
#include <utility>

#include "strata/core/invariant.hpp"

namespace strata {

namespace {

std::vector<HostBlobId> ids_of(std::span<const HostBlob> blobs) {
    std::vector<HostBlobId> ids;
    ids.reserve(blobs.size());
    for (const HostBlob& blob : blobs) ids.push_back(blob.id);
    return ids;
}

std::uint64_t sum_of(std::span<const HostBlob> blobs) {
    std::uint64_t bytes = 0;
    for (const HostBlob& blob : blobs) bytes += blob.bytes;
    return bytes;
}

// What a removal leaves behind for the next turn of that conversation; nothing when it was wanted.
std::optional<LossCause> loss_of(Removal why) {
    switch (why) {
        case Removal::budget:
        case Removal::slots:
            return LossCause::evicted;
        case Removal::released:
            return LossCause::released;
        case Removal::invalid:
            return LossCause::invalid;
        case Removal::identity:
            return LossCause::identity;
        case Removal::superseded:
        case Removal::command:
            return std::nullopt;
    }
    return std::nullopt;
}

std::optional<LossCause> loss_of(ParkSkip why) {
    switch (why) {
        case ParkSkip::budget:
        case ParkSkip::too_large:
        case ParkSkip::slots:
            return LossCause::budget;
        case ParkSkip::floor:
        case ParkSkip::unknown_reading:
        case ParkSkip::allocation:
            return LossCause::floor;
        case ParkSkip::one_shot:
        case ParkSkip::incomplete:
            return std::nullopt;
    }
    return std::nullopt;
}

// The floor holds after `more` bytes are taken, once `back` bytes have been given back.
std::optional<ParkSkip> floor_skip(const MemoryReading& reading, std::uint64_t floor,
                                   std::uint64_t more, std::uint64_t back) {
    if (!reading.available_bytes) return ParkSkip::unknown_reading;
    if (*reading.available_bytes + back < floor + more) return ParkSkip::floor;
    return std::nullopt;
}

}  // namespace

struct ConversationCache::Draft {
    Books books;
    std::vector<Tombstone> stones;
    BookChange change;

    void remove(std::size_t index, Removal why);
    bool evict(std::optional<EntryId> guarded, Removal why);
    void drop_retained();
    void supersede(const ConversationOutline& by, std::optional<EntryId> except,
                   std::optional<EntryId> guarded);
    void supersede_spared();
    void end_incoming();
    std::optional<ParkSkip> make_room(const CacheLimits& limits, const ParkRequest& request);
    [[nodiscard]] bool superfluous(std::size_t index) const;  // another entry supersedes it
    [[nodiscard]] std::optional<std::size_t> oldest(std::optional<EntryId> guarded) const;
    [[nodiscard]] std::optional<std::size_t> index_of(EntryId entry) const;
};

std::optional<std::size_t> ConversationCache::Draft::index_of(EntryId entry) const {
    for (std::size_t i = 0; i < books.entries.size(); ++i) {
        if (books.entries[i].entry == entry) return i;
    }
    return std::nullopt;
}

std::optional<std::size_t> ConversationCache::Draft::oldest(std::optional<EntryId> guarded) const {
    for (std::size_t i = 0; i < books.entries.size(); ++i) {
        if (!books.entries[i].pinned && books.entries[i].entry != guarded) return i;
    }
    return std::nullopt;
}

void ConversationCache::Draft::remove(std::size_t index, Removal why) {
    const ParkedEntry entry = books.entries[index];
    const std::uint64_t before = books.ledger.bytes();
    books.ledger.remove(ids_of(image_blobs(*entry.image)));
    books.entries.erase(books.entries.begin() + static_cast<std::ptrdiff_t>(index));
    change.removed.push_back({entry.entry, why, entry.image, before - books.ledger.bytes()});
    if (const auto cause = loss_of(why)) stones.push_back(tombstone_of(*entry.image, *cause));
    CacheCounters& counters = books.counters;
    if (why == Removal::budget) ++counters.evicted_budget;
    if (why == Removal::slots) ++counters.evicted_slots;
    if (why == Removal::released) ++counters.released;
    if (why == Removal::superseded) ++counters.superseded;
}

bool ConversationCache::Draft::evict(std::optional<EntryId> guarded, Removal why) {
    const auto victim = oldest(guarded);
    if (victim) remove(*victim, why);
    return victim.has_value();
}

void ConversationCache::Draft::drop_retained() {
    std::vector<HostBlobId> kept;
    std::vector<HostBlobId> gone;
    for (const HostBlobId id : books.live) {
        (books.ledger.count(id) > 1 ? kept : gone).push_back(id);
    }
    const std::uint64_t before = books.ledger.bytes();
    books.ledger.remove(gone);
    books.live = std::move(kept);
    change.retained_bytes += before - books.ledger.bytes();
}

void ConversationCache::Draft::supersede(const ConversationOutline& by,
                                         std::optional<EntryId> except,
                                         std::optional<EntryId> guarded) {
    for (std::size_t i = books.entries.size(); i-- > 0;) {
        const ParkedEntry& each = books.entries[i];
        if (each.pinned || each.entry == except) continue;
        if (!superseded(outline_of(*each.image), by)) continue;
        if (each.entry == guarded) {
            books.spared = guarded;  // its pages are about to be read
        } else {
            remove(i, Removal::superseded);
        }
    }
}

// The donor that a commit spared: what it lent is held by the live conversation now.
void ConversationCache::Draft::supersede_spared() {
    const auto index = books.spared ? index_of(*books.spared) : std::nullopt;
    books.spared.reset();
    if (!index || books.entries[*index].pinned) return;
    if (superfluous(*index)) remove(*index, Removal::superseded);
}

bool ConversationCache::Draft::superfluous(std::size_t index) const {
    const auto own = outline_of(*books.entries[index].image);
    return std::ranges::any_of(books.entries, [&](const ParkedEntry& each) {
        return each.entry != books.entries[index].entry && superseded(own, outline_of(*each.image));
    });
}

void ConversationCache::Draft::end_incoming() {
    if (!books.incoming) return;
    books.ledger.remove(books.incoming->ids);
    books.incoming.reset();
}

// A place first: what goes for it may be room enough. Then retained K/V, then the oldest. Says what
// is short when that does not suffice.
std::optional<ParkSkip> ConversationCache::Draft::make_room(const CacheLimits& limits,
                                                            const ParkRequest& request) {
    const bool may_evict = !request.only_free_room;
    while (std::ssize(books.entries) >= limits.slots) {
        if (!may_evict || !evict(request.guarded, Removal::slots)) return ParkSkip::slots;
    }
    if (may_evict && books.ledger.bytes() > limits.budget_bytes) drop_retained();
    while (books.ledger.bytes() > limits.budget_bytes) {
        if (!may_evict || !evict(request.guarded, Removal::budget)) return ParkSkip::budget;
    }
    return std::nullopt;
}

ConversationCache::ConversationCache(const CacheLimits& limits) : limits_(limits) {}

ConversationCache::Draft ConversationCache::draft() const {
    STRATA_INVARIANT(!books_.capture);
    Draft out{books_, {}, {}};
    out.books.entries.reserve(books_.entries.size() + 1);  // undo_take() must not need memory
    return out;
}

BookChange ConversationCache::put_in_place(Draft&& draft) {
    auto row = draft.books.ledger.rows().begin();
    const auto end = draft.books.ledger.rows().end();
    for (const HostLedger::Row& before : books_.ledger.rows()) {
        while (row != end && row->id < before.id) ++row;
        if (row == end || row->id != before.id) draft.change.left.push_back(before.id);
    }
    // From here on nothing can fail.
    std::swap(books_, draft.books);
    for (Tombstone& stone : draft.stones) tombstones_.add(std::move(stone));
    return std::move(draft.change);
}

const ParkedEntry* ConversationCache::find(EntryId entry) const {
    for (const ParkedEntry& each : books_.entries) {
        if (each.entry == entry) return &each;
    }
    return nullptr;
}

std::uint64_t ConversationCache::retained_bytes() const {
    std::uint64_t bytes = 0;
    for (const HostLedger::Row& row : books_.ledger.rows()) {
        const auto& live = books_.live;
        if (row.count == 1 && std::binary_search(live.begin(), live.end(), row.id)) {
            bytes += row.bytes;
        }
    }
    return bytes;
}

std::uint64_t ConversationCache::unique_bytes(EntryId entry) const {
    const ParkedEntry* parked = find(entry);
    STRATA_INVARIANT(parked);
    std::uint64_t bytes = 0;
    for (const HostBlob& blob : image_blobs(*parked->image)) {
        if (books_.ledger.count(blob.id) == 1) bytes += blob.bytes;
    }
    return bytes;
}

std::int64_t ConversationCache::releasable(std::optional<EntryId> guarded) const {
    return std::ranges::count_if(books_.entries, [guarded](const ParkedEntry& each) {
        return !each.pinned && each.entry != guarded;
    });
}

SharedImage ConversationCache::take(EntryId entry) {
    STRATA_INVARIANT(!books_.incoming);
    Draft work = draft();
    const auto index = work.index_of(entry);
    if (!index || work.books.entries[*index].pinned) return nullptr;
    auto& entries = work.books.entries;
    Incoming incoming{entries[*index], {}, entries.size() - 1 - *index, false};
    incoming.ids = ids_of(image_blobs(*incoming.entry.image));
    SharedImage image = incoming.entry.image;
    entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(*index));
    work.books.incoming = std::move(incoming);
    put_in_place(std::move(work));
    return image;
}

SharedImage ConversationCache::borrow(EntryId entry, std::int64_t now_ms) {
    const auto donor = std::ranges::find(books_.entries, entry, &ParkedEntry::entry);
    if (donor == books_.entries.end()) return nullptr;
    ++donor->hits;
    donor->active_ms = now_ms;
    SharedImage image = donor->image;
    std::rotate(donor, donor + 1, books_.entries.end());
    return image;
}

bool ConversationCache::undo_take() noexcept {
    STRATA_INVARIANT(books_.incoming && !books_.capture);
    if (books_.incoming->committed_since) return false;
    auto& entries = books_.entries;
    const std::size_t newer = std::min(books_.incoming->newer, entries.size());
    entries.insert(entries.end() - static_cast<std::ptrdiff_t>(newer),
                   std::move(books_.incoming->entry));
    books_.incoming.reset();
    return true;
}

Admission ConversationCache::refuse(const ParkRequest& request, Admission admission, ParkSkip why) {
    Draft work = draft();
    if (const auto cause = loss_of(why)) {
        work.stones.push_back(tombstone_of(*request.image, *cause));
    }
    if (why == ParkSkip::budget && books_.incoming) ++work.books.counters.lost;
    admission.skip = why;
    admission.free_bytes = limits_.budget_bytes - bytes();
    admission.change = put_in_place(std::move(work));
    return admission;
}

Admission ConversationCache::admit(const ParkRequest& request) {
    Admission admission;
    if (!enabled()) return admission;
    STRATA_INVARIANT(request.image && !request.image->ids->empty());
    const auto blobs = image_blobs(*request.image);
    Capture capture{
        {}, ids_of(blobs), {}, tombstone_of(*request.image, LossCause::floor), request.guarded};
    std::uint64_t captured = 0;  // of the new bytes, what is not in RAM yet
    for (const HostBlob& blob : blobs) {
        if (names(blob.id)) continue;
        admission.new_bytes += blob.bytes;
        captured += blob.resident ? 0 : blob.bytes;
    }
    const std::uint64_t image_bytes = sum_of(blobs);
    admission.shared_bytes = image_bytes - admission.new_bytes;
    const auto own = outline_of(*request.image);
    for (const ParkedEntry& each : books_.entries) {
        const auto parked = outline_of(*each.image);
        // Of two that hold each other's, the newer one stays, unless the older one is pinned.
        if (!superseded(own, parked) || (!each.pinned && superseded(parked, own))) continue;
        admission.superseded = true;
        count_superseded();
        return admission;
    }
    if (image_bytes > limits_.budget_bytes) return refuse(request, admission, ParkSkip::too_large);

    Draft work = draft();
    work.books.ledger.add(blobs);
    if (auto skip = work.make_room(limits_, request)) return refuse(request, admission, *skip);
    const std::uint64_t back = bytes() + admission.new_bytes - work.books.ledger.bytes();
    if (auto skip = floor_skip(request.reading, limits_.floor_bytes, captured, back)) {
        return refuse(request, admission, *skip);
    }
    for (const HostBlobId id : capture.ids) {
        if (work.books.ledger.count(id) == 1) capture.only_ids.push_back(id);
    }
    admission.admitted = true;
    admission.entry = ++work.books.last_entry;
    capture.entry = {admission.entry,     request.image, image_bytes,
                     request.image->hits, false,         request.image->active_ms};
    work.books.capture = std::move(capture);
    admission.change = put_in_place(std::move(work));
    return admission;
}

Commit ConversationCache::commit(const MemoryReading& after) {
    STRATA_INVARIANT(books_.capture);
    Commit out;
    if (auto skip = floor_skip(after, limits_.floor_bytes, 0, 0)) {
        out.skip = skip;
        out.change.left = abort();
        return out;
    }
    Draft work{books_, {}, {}};
    const ParkedEntry entry = work.books.capture->entry;
    const std::optional<EntryId> guarded = work.books.capture->guarded;
    work.books.capture.reset();
    work.books.entries.reserve(books_.entries.size() + 2);
    work.books.entries.push_back(entry);
    if (work.books.incoming) work.books.incoming->committed_since = true;
    work.supersede(outline_of(*entry.image), entry.entry, guarded);
    out.change = put_in_place(std::move(work));
    out.parked = true;
    return out;
}

std::vector<HostBlobId> ConversationCache::abort() noexcept {
    STRATA_INVARIANT(books_.capture);
    books_.ledger.remove(books_.capture->ids);
    tombstones_.add(std::move(books_.capture->stone));
    std::vector<HostBlobId> left = std::move(books_.capture->only_ids);
    books_.capture.reset();
    return left;
}

BookChange ConversationCache::set_live(const LiveHolding& live) {
    if (!enabled()) return {};
    Draft work = draft();
    const auto pages = holder_blobs(live.clean_pages);
    for (const HostBlob& page : pages) STRATA_INVARIANT(names(page.id));
    work.books.ledger.add(pages);
    work.books.ledger.remove(work.books.live);
    work.books.live = ids_of(pages);
    work.end_incoming();
    work.supersede_spared();
    std::vector<std::uint64_t> hashes;
    if (!live.outline.ids.empty()) {
        work.supersede(live.outline, std::nullopt, std::nullopt);
        if (!tombstones().empty()) hashes = hash_prefixes(live.outline.ids);
    }
    BookChange change = put_in_place(std::move(work));
    tombstones_.forget(hashes, live.outline.steering);
    return change;
}

void ConversationCache::forget_live() noexcept {
    if (books_.capture) {
        books_.ledger.remove(books_.capture->ids);
        books_.capture.reset();
    }
    if (books_.incoming && !undo_take()) {
        books_.ledger.remove(books_.incoming->ids);
        books_.incoming.reset();
    }
    books_.ledger.remove(books_.live);
    books_.live.clear();
}

BookChange ConversationCache::discard(EntryId entry, Removal why) {
    Draft work = draft();
    const auto index = work.index_of(entry);
    if (!index) return {};
    work.remove(*index, why);
    return put_in_place(std::move(work));
}

BookChange ConversationCache::evict_oldest(std::optional<EntryId> guarded) {
    Draft work = draft();
    if (!work.evict(guarded, Removal::released)) return {};
    return put_in_place(std::move(work));
}

BookChange ConversationCache::release_retained() {
    Draft work = draft();
    work.drop_retained();
    return put_in_place(std::move(work));
}

bool ConversationCache::pin(EntryId entry) {
    const auto found = std::ranges::find(books_.entries, entry, &ParkedEntry::entry);
    if (found == books_.entries.end()) return false;
    found->pinned = true;
    return true;
}

std::optional<BookChange> ConversationCache::unpin(EntryId entry) {
    Draft work = draft();
    const auto index = work.index_of(entry);
    if (!index) return std::nullopt;
    work.books.entries[*index].pinned = false;
    if (work.superfluous(*index)) work.remove(*index, Removal::superseded);
    return put_in_place(std::move(work));
}

std::optional<BookChange> ConversationCache::drop(EntryId entry) {
    if (!find(entry)) return std::nullopt;
    return discard(entry, Removal::command);
}

BookChange ConversationCache::clear() {
    Draft work = draft();
    while (!work.books.entries.empty()) work.remove(0, Removal::command);
    return put_in_place(std::move(work));
}

}  // namespace strata
