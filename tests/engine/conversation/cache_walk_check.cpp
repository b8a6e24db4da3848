// What cache_walk.hpp compares after every step. The numbers are the invariants' of
// conversation_cache.hpp.
#include <algorithm>

#include "cache_walk.hpp"

namespace strata::tests {

void CacheWalk::expect(bool holds, const char* step, const char* what) {
    if (holds || !fault_.empty()) return;
    fault_ = "step " + std::to_string(steps_) + ", " + step + ": not so: " + what;
}

void CacheWalk::check(const char* step, const BookChange& change) {
    const auto now = reference_.named();
    std::vector<HostBlobId> left;
    for (const HostBlob& before : named_) {
        const auto same = [&](const HostBlob& blob) { return blob.id == before.id; };
        if (std::none_of(now.begin(), now.end(), same)) left.push_back(before.id);
    }
    expect(left == change.left, step, "what left is what nobody names any more");
    expect(std::ranges::equal(change.removed, reference_.removed,
                              [](const RemovedEntry& a, const ReferenceCache::Removed& b) {
                                  return a.entry == b.entry && a.why == b.why;
                              }),
           step, "the same entries went, for the same reasons, in the same order");
    std::uint64_t given_back = change.retained_bytes;
    for (const RemovedEntry& each : change.removed) {
        given_back += each.bytes;
        tally_.evicted += each.why == Removal::budget || each.why == Removal::slots ? 1 : 0;
        tally_.superseded += each.why == Removal::superseded ? 1 : 0;
    }
    std::uint64_t left_bytes = 0;
    for (const HostBlob& before : named_) {
        if (std::binary_search(left.begin(), left.end(), before.id)) left_bytes += before.bytes;
    }
    expect(given_back <= left_bytes, step, "what went says no more than what it gave back");
    session_.forget(change.left);
    check_books(step);
}

void CacheWalk::check_books(const char* step) {
    ++steps_;
    const auto named = reference_.named();
    std::uint64_t bytes = 0;
    for (const HostBlob& blob : named) bytes += blob.bytes;
    expect(cache_.bytes() == bytes, step, "bytes are unique bytes");
    expect(bytes <= shape_.limits.budget_bytes, step, "(1) bytes <= budget");
    expect(std::ssize(cache_.entries()) <= shape_.limits.slots, step, "(2) entries <= slots");
    expect(cache_.retained_bytes() == reference_.retained_bytes(), step, "retained bytes");
    const auto rows = cache_.ledger().rows();
    expect(rows.size() == named.size(), step, "(7) every named blob has one row");
    for (std::size_t i = 0; i < named.size() && i < rows.size(); ++i) {
        expect(rows[i].id == named[i].id && rows[i].bytes == named[i].bytes &&
                   rows[i].count == reference_.holders(named[i].id),
               step, "(7) a blob's count is the number of its holders");
    }
    expect(cache_.counters() == reference_.counters, step, "the counters");
    expect(cache_.counters().evictions() >= evictions_, step, "(5) evictions only grow");
    evictions_ = cache_.counters().evictions();
    if (!shape_.limits.enabled()) {
        expect(cache_.entries().empty() && cache_.bytes() == 0 && cache_.tombstones().empty(), step,
               "(6) off, nothing is stored");
    }
    check_entries(step);
    check_superseded(step);
    check_stones(step);
}

void CacheWalk::check_entries(const char* step) {
    const auto entries = cache_.entries();
    expect(std::ranges::equal(entries, reference_.entries,
                              [](const ParkedEntry& a, const ReferenceEntry& b) {
                                  return a.entry == b.entry && a.image == b.image &&
                                         a.pinned == b.pinned && a.hits == b.hits;
                              }),
           step, "(3) the recency order");
    for (std::size_t i = 0; i < entries.size(); ++i) {
        std::uint64_t alone = 0;
        for (const HostBlob& blob : image_blobs(*entries[i].image)) {
            alone += reference_.holders(blob.id) == 1 ? blob.bytes : 0;
        }
        expect(cache_.unique_bytes(entries[i].entry) == alone, step, "unique bytes of an entry");
        for (std::size_t j = 0; j < i; ++j) {
            expect(entries[i].entry != entries[j].entry, step, "(3) an entry is there once");
        }
    }
}

void CacheWalk::check_superseded(const char* step) {
    const auto& entries = reference_.entries;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        for (std::size_t j = 0; j < entries.size(); ++j) {
            const bool lends = entries[i].entry == donor_ || entries[j].entry == donor_;
            if (i == j || entries[i].pinned || lends) continue;
            expect(!plainly_superseded(*entries[i].image, *entries[j].image), step,
                   "(4) no parked entry is superseded by another one");
        }
        if (std::string_view(step) != "set_live" || entries[i].pinned) continue;
        expect(!plainly_superseded(*entries[i].image, session_.ids(), session_.steering(),
                                   session_.points()),
               step, "(4) no parked entry is superseded by the live conversation");
    }
}

void CacheWalk::check_stones(const char* step) {
    expect(std::ranges::equal(cache_.tombstones(), reference_.stones,
                              [](const Tombstone& a, const ReferenceStone& b) {
                                  return a.cause == b.cause && a.steering == b.steering &&
                                         a.tokens == std::ssize(b.ids);
                              }),
           step, "the tombstones");
}

}  // namespace strata::tests
