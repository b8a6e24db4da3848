// The steps of cache_walk.hpp; cache_walk_check.cpp compares.
#include "cache_walk.hpp"

#include <algorithm>
#include <utility>

namespace strata::tests {

namespace {

constexpr TokenId kAlphabet = 3;  // few tokens: conversations share prefixes all the time
constexpr std::size_t kLongestConversation = 14;
constexpr PromptMarks kNoRoot{0, 1, 0, 0};
constexpr PromptMarks kShortRoot{2, 3, 0, 0};
const MemoryReading kPlenty{std::uint64_t{1} << 40, MemoryBound::host};

}  // namespace

CacheWalk::CacheWalk(const WalkShape& shape, std::uint64_t seed)
    : shape_(shape),
      cache_(shape.limits),
      reference_(shape.limits),
      session_(shape.session),
      random_state_(seed) {
    begin(false);
}

// splitmix64 (Steele et al. 2014).
std::uint64_t CacheWalk::random(std::uint64_t below) {
    std::uint64_t x = (random_state_ += 0x9e3779b97f4a7c15ULL);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
    return (x ^ (x >> 31)) % below;
}

EntryId CacheWalk::random_entry() {
    const auto entries = cache_.entries();
    if (entries.empty() || chance(3)) return 1 + random(4);  // perhaps one that is gone
    return entries[random(entries.size())].entry;
}

MemoryReading CacheWalk::random_reading() {
    if (chance(4)) return {};
    if (chance(15)) return {shape_.limits.floor_bytes + random(60), MemoryBound::host};
    if (chance(3)) return {shape_.limits.floor_bytes - 1, MemoryBound::host};
    return kPlenty;
}

void CacheWalk::begin(bool steered) {
    const PromptMarks& marks = chance(30) ? kNoRoot : kShortRoot;
    session_.begin({steered ? "calm" : "", ""}, marks, ++conversations_);
}

void CacheWalk::tell_live() {
    donor_.reset();
    named_ = reference_.named();
    const BookChange change = cache_.set_live(session_.holding());
    reference_.set_live(session_.clean_pages(), session_.ids(), session_.steering(),
                        session_.points());
    check("set_live", change);
}

void CacheWalk::write(std::uint64_t tokens) {
    for (std::uint64_t i = 0; i < tokens && session_.ids().size() < kLongestConversation; ++i) {
        session_.write(static_cast<TokenId>(random(kAlphabet)));
    }
    if (chance(60)) {
        constexpr CheckpointKind kKinds[] = {CheckpointKind::tail, CheckpointKind::interval,
                                             CheckpointKind::turn, CheckpointKind::root};
        session_.keep_checkpoint(kKinds[random(4)]);
    }
    if (chance(80)) tell_live();
}

void CacheWalk::rewind() {
    const auto points = session_.points();
    if (points.empty()) return;
    session_.rewind(points[random(points.size())]);
    tell_live();
}

SharedImage CacheWalk::take(EntryId entry) {
    named_ = reference_.named();
    SharedImage image = cache_.take(entry);
    const bool taken = reference_.take(entry);
    expect(taken == (image != nullptr), "take", "is there");
    if (image) {
        expect(image == reference_.incoming->image, "take", "(8) hands back what was parked");
        ++tally_.taken;
    }
    check("take", {});
    return image;
}

SharedImage CacheWalk::borrow(EntryId entry) {
    named_ = reference_.named();
    SharedImage image = cache_.borrow(entry, 0);
    const bool there = reference_.borrow(entry);
    expect(there == (image != nullptr), "borrow", "is there");
    if (image) {
        expect(image == reference_.entries.back().image, "borrow", "(8) lends what was parked");
        ++tally_.borrowed;
    }
    check("borrow", {});
    return image;
}

bool CacheWalk::park(const ParkRequest& request, const MemoryReading& after, bool fails) {
    named_ = reference_.named();
    const std::uint64_t before = cache_.bytes();
    const Admission admission = cache_.admit(request);
    const auto wanted = reference_.admit(request);
    expect(admission.admitted == wanted.admitted && admission.skip == wanted.skip &&
               admission.superseded == wanted.superseded,
           "admit", "says what the rules say");
    if (admission.skip == ParkSkip::budget && cache_.in_flight()) ++tally_.lost;
    if (admission.change.retained_bytes > 0) ++tally_.retained_dropped;
    check("admit", admission.change);
    if (!admission.admitted) {
        expect(cache_.bytes() == before && admission.change.left.empty(), "admit",
               "(9) a refusal leaves the books as they were");
        ++tally_.refused;
        return false;
    }
    named_ = reference_.named();
    if (fails) {
        const BookChange change{{}, cache_.abort(), 0};
        reference_.abort();
        check("abort", change);
        ++tally_.aborted;
        return false;
    }
    const Commit commit = cache_.commit(after);
    const auto skip = reference_.commit(after);
    expect(commit.skip == skip && commit.parked != skip.has_value(), "commit", "says the same");
    check("commit", commit.change);
    if (!commit.parked) return false;
    ++tally_.parked;
    session_.mark_clean(*request.image);
    return true;
}

void CacheWalk::switch_conversation() {
    const std::uint64_t how = random(100);
    SharedImage image;
    std::optional<EntryId> guarded;
    if (how < 35) image = take(random_entry());
    if (how >= 35 && how < 55) {
        guarded = random_entry();
        image = borrow(*guarded);
    }
    donor_ = guarded;
    if (!session_.empty()) {
        park({session_.describe(), random_reading(), guarded, false}, random_reading(), chance(5));
    }
    if (!image) {
        begin(chance(30));
    } else {
        Position at = image->end();
        const auto& points = image->checkpoints;
        if (!points.empty() && chance(60)) at = points[random(points.size())].mark.position;
        session_.load(*image, at);
    }
    tell_live();
}

// A rewind that drops turns: the branch is parked into free room, the conversation goes on.
void CacheWalk::leave_branch() {
    if (session_.empty()) return;
    park({session_.describe(), random_reading(), std::nullopt, true}, random_reading(), false);
    rewind();
    tell_live();
}

void CacheWalk::take_and_undo() {
    if (!take(random_entry())) return;
    named_ = reference_.named();
    const bool undone = cache_.undo_take();
    expect(undone == reference_.undo_take(), "undo_take", "says the same");
    check("undo_take", {});
    tally_.undone += undone ? 1 : 0;
}

// A request that ends in the middle: with an image in flight, or with a capture, or with both.
void CacheWalk::fail_midway() {
    if (chance(50)) take(random_entry());
    named_ = reference_.named();
    if (chance(50) && !session_.empty()) {
        const ParkRequest request{session_.describe(), kPlenty, std::nullopt, false};
        const bool admitted = cache_.admit(request).admitted;
        expect(admitted == reference_.admit(request).admitted, "admit", "says the same");
        if (admitted && chance(50)) {
            (void)cache_.commit(kPlenty);
            (void)reference_.commit(kPlenty);
        }
    }
    cache_.forget_live();
    reference_.forget_live();
    begin(false);
    check_books("forget_live");
}

void CacheWalk::steer() {
    const EntryId entry = random_entry();
    named_ = reference_.named();
    BookChange change;
    switch (random(6)) {
        case 0:
            expect(cache_.pin(entry) == (cache_.find(entry) != nullptr), "pin", "is there");
            reference_.pin(entry);
            break;
        case 1:
        case 2:
            if (auto done = cache_.unpin(entry)) change = *std::move(done);
            reference_.unpin(entry);
            break;
        case 3:
            if (auto done = cache_.drop(entry)) change = *std::move(done);
            reference_.discard(entry, Removal::command);
            break;
        case 4:
            change = cache_.discard(entry, Removal::invalid);
            reference_.discard(entry, Removal::invalid);
            break;
        default:
            if (!chance(5)) return;
            change = cache_.clear();
            reference_.clear();
    }
    check("steer", change);
}

void CacheWalk::release_oldest() {
    named_ = reference_.named();
    const auto guarded = chance(20) ? std::optional(random_entry()) : std::nullopt;
    const BookChange change = cache_.evict_oldest(guarded);
    reference_.evict_oldest(guarded);
    tally_.released += change.removed.size();
    check("evict_oldest", change);
}

void CacheWalk::say(TokenId id) {
    session_.write(id);
    session_.keep_checkpoint(CheckpointKind::turn);
    tell_live();
}

void CacheWalk::begin_chat(bool steered) {
    if (!session_.empty())
        park({session_.describe(), kPlenty, std::nullopt, false}, kPlenty, false);
    session_.begin({steered ? "calm" : "", ""}, kNoRoot, ++conversations_);
    tell_live();
}

void CacheWalk::go_back_to_oldest() {
    if (cache_.entries().empty()) return;
    const SharedImage image = take(cache_.entries().front().entry);
    if (!session_.empty())
        park({session_.describe(), kPlenty, std::nullopt, false}, kPlenty, false);
    session_.load(*image, image->end());
    tell_live();
}

void CacheWalk::branch_from_newest() {
    if (cache_.entries().empty() || cache_.entries().back().image->checkpoints.empty()) return;
    const EntryId donor = cache_.entries().back().entry;
    const SharedImage image = borrow(donor);
    donor_ = donor;
    if (!session_.empty()) park({session_.describe(), kPlenty, donor, false}, kPlenty, false);
    session_.load(*image, image->checkpoints.front().mark.position);
    tell_live();
}

void CacheWalk::random_step() {
    const std::uint64_t kind = random(100);
    if (kind < 35) {
        write(1 + random(3));
    } else if (kind < 45) {
        rewind();
    } else if (kind < 75) {
        switch_conversation();
    } else if (kind < 80) {
        leave_branch();
    } else if (kind < 83) {
        take_and_undo();
    } else if (kind < 85) {
        fail_midway();
    } else if (kind < 92) {
        steer();
    } else if (kind < 96) {
        release_oldest();
    } else {
        named_ = reference_.named();
        const BookChange change = cache_.release_retained();
        reference_.release_retained();
        check("release_retained", change);
    }
}

}  // namespace strata::tests
