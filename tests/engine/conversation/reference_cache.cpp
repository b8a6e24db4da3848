// See reference_cache.hpp.
#include "reference_cache.hpp"

#include <algorithm>
#include <utility>

namespace strata::tests {

namespace {

std::vector<HostBlob> blobs_of(const ConversationImage& image) {
    std::vector<HostBlob> all(image.pages);
    for (const auto& each : image.checkpoints) all.push_back(each.running_state);
    all.push_back(image.end_state);
    std::vector<HostBlob> once;
    for (const HostBlob& blob : all) {
        if (blob.id == HostBlobId::none) continue;
        if (std::none_of(once.begin(), once.end(),
                         [&](const HostBlob& seen) { return seen.id == blob.id; })) {
            once.push_back(blob);
        }
    }
    return once;
}

std::uint64_t total(const std::vector<HostBlob>& blobs) {
    std::uint64_t sum = 0;
    for (const HostBlob& blob : blobs) sum += blob.bytes;
    return sum;
}

bool contains(const std::vector<HostBlob>& blobs, HostBlobId id) {
    return std::any_of(blobs.begin(), blobs.end(), [&](const HostBlob& b) { return b.id == id; });
}

}  // namespace

bool plainly_superseded(const ConversationImage& old, const TokenIds& by_ids,
                        const std::string& by_steering, const std::vector<Position>& by_points) {
    if (old.identity.steering != by_steering) return false;
    Position deepest = -1;
    for (const auto& each : old.checkpoints) {
        if (each.mark.kind != CheckpointKind::tail && each.mark.position > deepest) {
            deepest = each.mark.position;
        }
    }
    if (deepest < 1 || deepest < old.marks.first_turn) return false;
    bool known = deepest == std::ssize(by_ids);
    for (const Position point : by_points) known = known || point == deepest;
    if (!known || deepest > std::ssize(by_ids)) return false;
    for (std::size_t i = 0; i < static_cast<std::size_t>(deepest); ++i) {
        if ((*old.ids)[i] != by_ids[i]) return false;
    }
    return true;
}

bool plainly_superseded(const ConversationImage& old, const ConversationImage& by) {
    std::vector<Position> points;
    for (const auto& each : by.checkpoints) points.push_back(each.mark.position);
    return plainly_superseded(old, *by.ids, by.identity.steering, points);
}

std::vector<std::vector<HostBlob>> ReferenceCache::all_holders() const {
    std::vector<std::vector<HostBlob>> all;
    for (const ReferenceEntry& each : entries) all.push_back(blobs_of(*each.image));
    if (incoming) all.push_back(blobs_of(*incoming->image));
    if (capture) all.push_back(blobs_of(*capture->image));
    all.push_back(live);
    return all;
}

std::vector<HostBlob> ReferenceCache::named() const {
    std::vector<HostBlob> all;
    for (const auto& holder : all_holders()) all.insert(all.end(), holder.begin(), holder.end());
    std::sort(all.begin(), all.end(),
              [](const HostBlob& a, const HostBlob& b) { return a.id < b.id; });
    all.erase(std::unique(all.begin(), all.end(),
                          [](const HostBlob& a, const HostBlob& b) { return a.id == b.id; }),
              all.end());
    return all;
}

std::uint64_t ReferenceCache::bytes() const {
    return total(named());
}

std::uint32_t ReferenceCache::holders(HostBlobId id) const {
    std::uint32_t count = 0;
    for (const auto& holder : all_holders()) count += contains(holder, id) ? 1 : 0;
    return count;
}

std::uint64_t ReferenceCache::retained_bytes() const {
    std::uint64_t sum = 0;
    for (const HostBlob& page : live) sum += holders(page.id) == 1 ? page.bytes : 0;
    return sum;
}

std::optional<std::size_t> ReferenceCache::place_of(EntryId entry) const {
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (entries[i].entry == entry) return i;
    }
    return {};
}

std::optional<std::size_t> ReferenceCache::victim(std::optional<EntryId> guarded) const {
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (!entries[i].pinned && entries[i].entry != guarded) return i;
    }
    return {};
}

void ReferenceCache::add_stone(const ConversationImage& image, LossCause cause) {
    stones.push_back({image.identity.steering, *image.ids, cause});
    if (stones.size() > 256) stones.erase(stones.begin());
}

void ReferenceCache::remove(std::size_t at, Removal why) {
    const ReferenceEntry gone = entries[at];
    entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(at));
    removed.push_back({gone.entry, why});
    switch (why) {
        case Removal::budget:
            ++counters.evicted_budget;
            add_stone(*gone.image, LossCause::evicted);
            break;
        case Removal::slots:
            ++counters.evicted_slots;
            add_stone(*gone.image, LossCause::evicted);
            break;
        case Removal::released:
            ++counters.released;
            add_stone(*gone.image, LossCause::released);
            break;
        case Removal::superseded:
            ++counters.superseded;
            break;
        case Removal::invalid:
            add_stone(*gone.image, LossCause::invalid);
            break;
        case Removal::identity:
            add_stone(*gone.image, LossCause::identity);
            break;
        case Removal::command:
            break;
    }
}

bool ReferenceCache::take(EntryId entry) {
    removed.clear();
    const auto at = place_of(entry);
    if (!at || entries[*at].pinned) return false;
    incoming = entries[*at];
    newer_ = entries.size() - 1 - *at;
    committed_since_ = false;
    entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(*at));
    return true;
}

bool ReferenceCache::borrow(EntryId entry) {
    removed.clear();
    const auto at = place_of(entry);
    if (!at) return false;
    ReferenceEntry donor = entries[*at];
    ++donor.hits;
    entries.erase(entries.begin() + static_cast<std::ptrdiff_t>(*at));
    entries.push_back(donor);
    return true;
}

bool ReferenceCache::undo_take() {
    removed.clear();
    if (committed_since_) return false;
    const std::size_t at = entries.size() - std::min(newer_, entries.size());
    entries.insert(entries.begin() + static_cast<std::ptrdiff_t>(at), *incoming);
    incoming.reset();
    return true;
}

ReferenceCache::Admitted ReferenceCache::refuse(const ParkRequest& request, ParkSkip why,
                                                LossCause cause) {
    add_stone(*request.image, cause);
    if (why == ParkSkip::budget && incoming) ++counters.lost;
    return {false, why, false};
}

ReferenceCache::Admitted ReferenceCache::admit(const ParkRequest& request) {
    removed.clear();
    if (!limits_.enabled()) return {};
    const ConversationImage& image = *request.image;
    for (const ReferenceEntry& each : entries) {
        const bool older_stays = each.pinned || !plainly_superseded(*each.image, image);
        if (older_stays && plainly_superseded(image, *each.image)) {
            ++counters.superseded;
            return {false, std::nullopt, true};
        }
    }
    const auto blobs = blobs_of(image);
    if (total(blobs) > limits_.budget_bytes) {
        return refuse(request, ParkSkip::too_large, LossCause::budget);
    }
    const auto before = named();
    std::uint64_t to_write = 0;
    for (const HostBlob& blob : blobs) {
        if (!contains(before, blob.id) && !blob.resident) to_write += blob.bytes;
    }

    // Try it on a copy: everything below may turn out not to suffice.
    ReferenceCache tried = *this;
    tried.capture = ReferenceEntry{0, request.image, false, image.hits};
    const auto go = [&](Removal why) {
        const auto at = request.only_free_room ? std::nullopt : tried.victim(request.guarded);
        if (at) tried.remove(*at, why);
        return at.has_value();
    };
    while (std::ssize(tried.entries) + 1 > limits_.slots) {
        if (!go(Removal::slots)) return refuse(request, ParkSkip::slots, LossCause::budget);
    }
    if (tried.bytes() > limits_.budget_bytes && !request.only_free_room) {
        std::vector<HostBlob> kept;
        for (const HostBlob& page : tried.live) {
            if (tried.holders(page.id) > 1) kept.push_back(page);
        }
        tried.live = kept;
    }
    while (tried.bytes() > limits_.budget_bytes) {
        if (!go(Removal::budget)) return refuse(request, ParkSkip::budget, LossCause::budget);
    }
    const auto after = tried.named();
    std::uint64_t back = 0;
    for (const HostBlob& blob : before) back += contains(after, blob.id) ? 0 : blob.bytes;
    if (!request.reading.available_bytes) {
        return refuse(request, ParkSkip::unknown_reading, LossCause::floor);
    }
    if (*request.reading.available_bytes + back < limits_.floor_bytes + to_write) {
        return refuse(request, ParkSkip::floor, LossCause::floor);
    }
    tried.capture->entry = ++tried.last_entry_;
    tried.guarded_ = request.guarded;
    *this = tried;
    return {true, std::nullopt, false};
}

std::optional<ParkSkip> ReferenceCache::commit(const MemoryReading& after) {
    removed.clear();
    const ReferenceEntry entry = *capture;
    capture.reset();
    if (!after.available_bytes || *after.available_bytes < limits_.floor_bytes) {
        add_stone(*entry.image, LossCause::floor);
        return after.available_bytes ? ParkSkip::floor : ParkSkip::unknown_reading;
    }
    committed_since_ = true;
    for (std::size_t i = entries.size(); i-- > 0;) {
        if (entries[i].pinned || entries[i].entry == guarded_) continue;
        if (plainly_superseded(*entries[i].image, *entry.image)) remove(i, Removal::superseded);
    }
    entries.push_back(entry);
    return {};
}

void ReferenceCache::abort() {
    removed.clear();
    add_stone(*capture->image, LossCause::floor);
    capture.reset();
}

void ReferenceCache::set_live(const std::vector<HostBlob>& pages, const TokenIds& ids,
                              const std::string& steering, const std::vector<Position>& points) {
    removed.clear();
    if (!limits_.enabled()) return;
    live = pages;
    incoming.reset();
    for (std::size_t i = 0; i < entries.size();) {
        if (!entries[i].pinned && held_by_another(i)) {
            remove(i, Removal::superseded);
        } else {
            ++i;
        }
    }
    if (ids.empty()) return;
    for (std::size_t i = entries.size(); i-- > 0;) {
        if (!entries[i].pinned && plainly_superseded(*entries[i].image, ids, steering, points)) {
            remove(i, Removal::superseded);
        }
    }
    std::erase_if(stones, [&](const ReferenceStone& stone) {
        return stone.steering == steering && stone.ids.size() <= ids.size() &&
               std::equal(stone.ids.begin(), stone.ids.end(), ids.begin());
    });
}

void ReferenceCache::forget_live() {
    removed.clear();
    capture.reset();
    if (incoming && !undo_take()) incoming.reset();
    live.clear();
}

void ReferenceCache::discard(EntryId entry, Removal why) {
    removed.clear();
    if (const auto at = place_of(entry)) remove(*at, why);
}

void ReferenceCache::evict_oldest(std::optional<EntryId> guarded) {
    removed.clear();
    if (const auto at = victim(guarded)) remove(*at, Removal::released);
}

void ReferenceCache::release_retained() {
    removed.clear();
    std::vector<HostBlob> kept;
    for (const HostBlob& page : live) {
        if (holders(page.id) > 1) kept.push_back(page);
    }
    live = kept;
}

void ReferenceCache::pin(EntryId entry) {
    removed.clear();
    if (const auto at = place_of(entry)) entries[*at].pinned = true;
}

void ReferenceCache::unpin(EntryId entry) {
    removed.clear();
    const auto at = place_of(entry);
    if (!at) return;
    entries[*at].pinned = false;
    if (held_by_another(*at)) remove(*at, Removal::superseded);
}

bool ReferenceCache::held_by_another(std::size_t at) const {
    for (std::size_t i = 0; i < entries.size(); ++i) {
        if (i != at && plainly_superseded(*entries[at].image, *entries[i].image)) return true;
    }
    return false;
}

void ReferenceCache::clear() {
    removed.clear();
    while (!entries.empty()) remove(0, Removal::command);
}

}  // namespace strata::tests
