// The nine numbered invariants of conversation_cache.hpp, a test each by the same number. The
// random walk (cache_walk_run) checks all of them after every step; these say what each one means.
#include <algorithm>

#include <catch2/catch.hpp>

#include "sim_session.hpp"

namespace strata::tests {
namespace {

constexpr SimShape kShape{true, 10, 7};
const MemoryReading kPlenty{std::uint64_t{1} << 40, MemoryBound::host};

CacheLimits limits(std::uint64_t budget, std::int64_t slots = 4) {
    return {budget, slots, 1000, 6};
}

// A cache and the session that feeds it. A conversation of n tokens has n / 2 pages of 10 bytes,
// one checkpoint and one end of 7 bytes: conversation(4) is 34 bytes.
struct Desk {
    explicit Desk(const CacheLimits& bounds) : cached(bounds) {}

    SharedImage conversation(Position tokens, TokenId first,
                             std::initializer_list<Position> checkpoints = {2}) {
        session.begin({}, {0, 1, 0, 0}, ++conversations);
        for (Position i = 0; i < tokens; ++i) {
            session.write(first + static_cast<TokenId>(i));
            if (std::ranges::find(checkpoints, i + 1) != checkpoints.end()) {
                session.keep_checkpoint(CheckpointKind::turn);
            }
        }
        return session.describe();
    }

    Admission admit(const SharedImage& image, std::optional<EntryId> guarded = std::nullopt,
                    bool only_free_room = false) {
        return cached.admit({image, kPlenty, guarded, only_free_room});
    }

    EntryId park(const SharedImage& image) {
        const Admission admission = admit(image);
        REQUIRE(admission.admitted);
        REQUIRE(cached.commit(kPlenty).parked);
        return admission.entry;
    }

    std::vector<EntryId> order() const {
        std::vector<EntryId> ids;
        for (const ParkedEntry& each : cached.entries()) ids.push_back(each.entry);
        return ids;
    }

    ConversationCache cached;
    SimSession session{kShape};
    std::uint64_t conversations = 0;
};

LiveHolding live_pages(const SharedImage& image) {
    return {outline_of({}, "", {}, {}), image->pages};
}

}  // namespace

TEST_CASE("invariant 1: bytes never exceed the budget whatever an operation holds") {
    Desk desk(limits(100));
    const EntryId first = desk.park(desk.conversation(4, 100));
    desk.park(desk.conversation(4, 200));
    CHECK(desk.cached.bytes() == 68);
    // What is captured counts from the admission on, and what goes has left by then.
    const SharedImage third = desk.conversation(4, 300);
    const Admission admission = desk.admit(third);
    REQUIRE(admission.admitted);
    CHECK(admission.change.removed.size() == 1);
    CHECK(admission.change.removed.front().entry == first);
    CHECK(admission.change.left.size() == 4);
    CHECK(desk.cached.bytes() == 68);
    CHECK(desk.cached.commit(kPlenty).parked);
    // An image in flight counts until set_live().
    REQUIRE(desk.cached.take(desk.order().front()));
    CHECK(desk.cached.bytes() == 68);
    CHECK(desk.admit(desk.conversation(4, 400)).change.removed.size() == 1);
    (void)desk.cached.abort();
    CHECK(desk.cached.bytes() == 34);
    desk.cached.set_live({});
    CHECK(desk.cached.bytes() == 0);
}

TEST_CASE("invariant 1: budget edges") {
    for (const std::uint64_t budget : {67U, 68U, 69U}) {
        Desk desk(limits(budget));
        desk.park(desk.conversation(4, 100));
        desk.park(desk.conversation(4, 200));
        CHECK(desk.cached.entries().size() == (budget < 68 ? 1U : 2U));
        CHECK(desk.cached.counters().evicted_budget == (budget < 68 ? 1 : 0));
    }
    for (const std::uint64_t budget : {33U, 34U}) {
        Desk desk(limits(budget));
        const Admission admission = desk.admit(desk.conversation(4, 100));
        CHECK(admission.admitted == (budget == 34));
        if (budget < 34) CHECK(admission.skip == ParkSkip::too_large);
    }
}

TEST_CASE("invariant 2: entries never exceed the slots") {
    Desk desk(limits(10'000, 2));
    const EntryId first = desk.park(desk.conversation(4, 100));
    const EntryId second = desk.park(desk.conversation(4, 200));
    const EntryId third = desk.park(desk.conversation(4, 300));
    CHECK(desk.order() == std::vector{second, third});
    CHECK(desk.cached.counters().evicted_slots == 1);
    CHECK(desk.cached.counters().evicted_budget == 0);
    CHECK_FALSE(desk.cached.find(first));
    desk.cached.pin(second);
    desk.cached.pin(third);
    CHECK(desk.admit(desk.conversation(4, 400)).skip == ParkSkip::slots);
    CHECK(desk.order() == std::vector{second, third});
    // A taken entry makes a place: slots + 1 conversations fit.
    REQUIRE(desk.cached.unpin(third));
    REQUIRE(desk.cached.take(third));
    desk.park(desk.conversation(4, 500));
    CHECK(desk.cached.entries().size() == 2);
    CHECK(desk.cached.counters().evictions() == 1);
}

TEST_CASE("invariant 3: an entry is in the recency order exactly once") {
    Desk desk(limits(10'000));
    const EntryId a = desk.park(desk.conversation(4, 100));
    const EntryId b = desk.park(desk.conversation(4, 200));
    const EntryId c = desk.park(desk.conversation(4, 300));
    CHECK(desk.order() == std::vector{a, b, c});
    REQUIRE(desk.cached.borrow(a, 5));
    CHECK(desk.order() == std::vector{b, c, a});
    CHECK(desk.cached.find(a)->hits == 1);
    CHECK(desk.cached.find(a)->active_ms == 5);
    REQUIRE(desk.cached.take(c));
    CHECK(desk.order() == std::vector{b, a});
    CHECK(desk.cached.undo_take());
    CHECK(desk.order() == std::vector{b, c, a});
    CHECK(desk.cached.evict_oldest(b).removed.front().entry == c);
    CHECK(desk.cached.counters().released == 1);
    CHECK(desk.cached.counters().evictions() == 0);
    CHECK(desk.order() == std::vector{b, a});
}

TEST_CASE("invariant 4: no parked entry is superseded by another or by the live one") {
    Desk desk(limits(10'000));
    const SharedImage older = desk.conversation(4, 100);
    const EntryId first = desk.park(older);
    // The same chat, grown: it has the older one's checkpoint.
    const SharedImage newer = desk.conversation(8, 100);
    const Admission admission = desk.admit(newer);
    const Commit commit = desk.cached.commit(kPlenty);
    REQUIRE(commit.change.removed.size() == 1);
    CHECK(commit.change.removed.front().entry == first);
    CHECK(commit.change.removed.front().why == Removal::superseded);
    CHECK(desk.order() == std::vector{admission.entry});
    CHECK(desk.cached.counters().superseded == 1);
    CHECK(desk.cached.tombstones().empty());
    // Live the same: what is parked is superfluous.
    const SharedImage live = desk.conversation(12, 100);
    const BookChange change = desk.cached.set_live(desk.session.holding());
    CHECK(change.removed.size() == 1);
    CHECK(desk.cached.entries().empty());
    CHECK(desk.cached.counters().evictions() == 0);
}

TEST_CASE("invariant 4: what a parked entry holds whole is not parked beside it") {
    Desk desk(limits(10'000));
    const SharedImage shorter = desk.conversation(4, 100);
    const SharedImage deeper = desk.conversation(8, 100, {2, 6});
    const EntryId entry = desk.park(deeper);
    const Admission admission = desk.admit(shorter);
    CHECK_FALSE(admission.admitted);
    CHECK(admission.superseded);
    CHECK_FALSE(admission.skip);
    CHECK(desk.order() == std::vector{entry});
    CHECK(desk.cached.counters().superseded == 1);
}

TEST_CASE("invariant 4: roots and branches and other identities stay") {
    Desk desk(limits(10'000, 9));
    desk.park(desk.conversation(4, 100));
    const SharedImage grown = desk.conversation(8, 100);
    auto other = std::make_shared<ConversationImage>(*grown);
    SECTION("another steering") {
        other->identity.steering = "calm";
    }
    SECTION("a checkpoint elsewhere") {
        other->checkpoints.front().mark.position = 3;
    }
    SECTION("other tokens before it") {
        TokenIds ids = *grown->ids;
        ids[1] = 77;
        other->ids = std::make_shared<const TokenIds>(ids);
    }
    desk.park(other);
    CHECK(desk.cached.entries().size() == 2);
    CHECK(desk.cached.counters().superseded == 0);
}

TEST_CASE("invariant 4: entries that share only the root or have no checkpoint stay") {
    Desk desk(limits(10'000, 9));
    const SharedImage plain = desk.conversation(4, 100);
    auto old = std::make_shared<ConversationImage>(*plain);
    SECTION("only the root") {
        old->marks.first_turn = 3;
    }
    SECTION("none but the tail") {
        old->checkpoints.front().mark.kind = CheckpointKind::tail;
    }
    SECTION("none") {
        old->checkpoints.clear();
    }
    desk.park(old);
    desk.park(desk.conversation(8, 100, {2, 6}));
    CHECK(desk.cached.entries().size() == 2);
}

TEST_CASE("invariant 4: a pinned entry is outside the rule until it is unpinned") {
    Desk desk(limits(10'000));
    const EntryId pinned = desk.park(desk.conversation(4, 100));
    REQUIRE(desk.cached.pin(pinned));
    const EntryId grown = desk.park(desk.conversation(8, 100, {2, 6}));
    CHECK(desk.order() == std::vector{pinned, grown});
    // It holds another's whole, too: that one is not parked beside it, however alike they are.
    CHECK(desk.admit(desk.conversation(5, 100)).superseded);
    const auto unpinned = desk.cached.unpin(pinned);
    REQUIRE(unpinned);
    REQUIRE(unpinned->removed.size() == 1);
    CHECK(unpinned->removed.front().why == Removal::superseded);
    CHECK(desk.order() == std::vector{grown});
}

TEST_CASE("invariant 4: the donor of a request is spared until who is live is told") {
    Desk desk(limits(10'000));
    const EntryId donor = desk.park(desk.conversation(4, 100));
    // What goes holds the donor whole (a pin had kept it beside it); the donor's pages are needed
    // yet.
    const SharedImage outgoing = desk.conversation(8, 100, {2, 6});
    const SharedImage lent = desk.cached.borrow(donor, 0);
    REQUIRE(desk.admit(outgoing, donor).admitted);
    CHECK(desk.cached.commit(kPlenty).change.removed.empty());
    CHECK(desk.cached.find(donor));
    const BookChange change = desk.cached.set_live(live_pages(lent));
    REQUIRE(change.removed.size() == 1);
    CHECK(change.removed.front().entry == donor);
    CHECK(desk.cached.retained_bytes() == 20);
}

TEST_CASE("invariant 5: evictions only grow and nothing else counts as one") {
    Desk desk(limits(70));
    std::int64_t before = 0;
    for (TokenId i = 0; i < 8; ++i) {
        desk.park(desk.conversation(4, 100 * (i + 1)));
        CHECK(desk.cached.counters().evictions() >= before);
        before = desk.cached.counters().evictions();
    }
    CHECK(before == 6);
    desk.cached.evict_oldest(std::nullopt);
    desk.cached.clear();
    CHECK(desk.cached.counters().evictions() == before);
    CHECK(desk.cached.counters().released == 1);
}

TEST_CASE("invariant 6: off in any of three ways stores nothing and every call is a no-op") {
    const CacheLimits off =
        GENERATE(CacheLimits{0, 4, 0, 6}, CacheLimits{1000, 0, 0, 6}, CacheLimits{1000, 4, 0, 0});
    Desk desk(off);
    CHECK_FALSE(desk.cached.enabled());
    const SharedImage image = desk.conversation(4, 100);
    const Admission admission = desk.admit(image);
    CHECK_FALSE(admission.admitted);
    CHECK_FALSE(admission.skip);
    CHECK(admission.change.left.empty());
    CHECK_FALSE(desk.cached.take(1));
    CHECK_FALSE(desk.cached.borrow(1, 0));
    CHECK(desk.cached.set_live(desk.session.holding()).left.empty());
    CHECK(desk.cached.evict_oldest(std::nullopt).removed.empty());
    CHECK(desk.cached.release_retained().left.empty());
    CHECK(desk.cached.discard(1, Removal::invalid).removed.empty());
    CHECK_FALSE(desk.cached.pin(1));
    CHECK_FALSE(desk.cached.unpin(1));
    CHECK_FALSE(desk.cached.drop(1));
    CHECK(desk.cached.clear().removed.empty());
    desk.cached.count_superseded();
    desk.cached.forget_live();
    CHECK(desk.cached.counters() == CacheCounters{});
    CHECK(desk.cached.bytes() == 0);
    CHECK(desk.cached.entries().empty());
    CHECK(desk.cached.tombstones().empty());
}

TEST_CASE("invariant 7: a blob counts once for each holder and leaves with the last") {
    Desk desk(limits(10'000));
    const SharedImage chat = desk.conversation(4, 100, {4});
    const EntryId entry = desk.park(chat);
    const HostBlobId page = chat->pages[0].id;
    CHECK(desk.cached.ledger().count(page) == 1);
    CHECK(desk.cached.retained_bytes() == 0);
    desk.cached.set_live(live_pages(chat));
    CHECK(desk.cached.ledger().count(page) == 2);
    CHECK(desk.cached.bytes() == 34);
    CHECK(desk.cached.unique_bytes(entry) == 14);
    // Another conversation that grew from it and shares both pages.
    auto grown = std::make_shared<ConversationImage>(*chat);
    grown->ids = std::make_shared<const TokenIds>(TokenIds{100, 101, 102, 103, 104, 105});
    grown->checkpoints = {{{CheckpointKind::turn, 6}, 0, {HostBlobId{901}, 7, true}}};
    grown->pages.push_back({HostBlobId{902}, 10, false});
    grown->end_state = {HostBlobId{903}, 7, false};
    const Admission admission = desk.admit(grown);
    CHECK(admission.new_bytes == 24);
    CHECK(admission.shared_bytes == 20);
    CHECK(desk.cached.ledger().count(page) == 3);
    REQUIRE(desk.cached.commit(kPlenty).parked);
    const auto dropped = desk.cached.drop(entry);
    REQUIRE(dropped);
    CHECK(dropped->removed.front().bytes == 14);
    CHECK(dropped->left.size() == 2);
    CHECK(desk.cached.ledger().count(page) == 2);
    REQUIRE(desk.cached.drop(admission.entry));
    CHECK(desk.cached.ledger().count(page) == 1);
    CHECK(desk.cached.retained_bytes() == 20);
    const BookChange released = desk.cached.release_retained();
    CHECK(released.retained_bytes == 20);
    CHECK(released.left.size() == 2);
    CHECK(desk.cached.bytes() == 0);
}

TEST_CASE("invariant 8: what comes back is what was parked name for name") {
    Desk desk(limits(10'000));
    const SharedImage chat = desk.conversation(7, 100, {4});
    const ConversationImage before = *chat;
    const EntryId entry = desk.park(chat);
    desk.park(desk.conversation(4, 300));
    for (const SharedImage& image : {desk.cached.borrow(entry, 0), desk.cached.take(entry)}) {
        REQUIRE(image);
        CHECK(*image->ids == *before.ids);
        CHECK(image->pages == before.pages);
        CHECK(image->end_state == before.end_state);
        CHECK(image->marks == before.marks);
        CHECK(image->conversation == before.conversation);
        REQUIRE(image->checkpoints.size() == before.checkpoints.size());
        CHECK(image->checkpoints[0].mark == before.checkpoints[0].mark);
        CHECK(image->checkpoints[0].running_state == before.checkpoints[0].running_state);
    }
    // Its pages are retained by who is live now; its states are the live session's own.
    const BookChange change = desk.cached.set_live(live_pages(chat));
    CHECK(desk.cached.retained_bytes() == 40);
    CHECK(change.left == std::vector{chat->checkpoints[0].running_state.id, chat->end_state.id});
}

TEST_CASE("invariant 9: a refused admission leaves the books as they were") {
    Desk desk(limits(100, 3));
    const EntryId first = desk.park(desk.conversation(4, 100));
    const EntryId second = desk.park(desk.conversation(4, 200));
    const HostLedger before = desk.cached.ledger();
    const SharedImage third = desk.conversation(16, 300);  // 94 bytes
    Admission refused;
    SECTION("what may go does not suffice") {
        desk.cached.pin(first);
        refused = desk.admit(third);
        CHECK(refused.skip == ParkSkip::budget);
        CHECK(refused.free_bytes == 32);
        CHECK(refused.new_bytes == 94);
    }
    SECTION("the guard stays") {
        refused = desk.admit(third, second);
        CHECK(refused.skip == ParkSkip::budget);
    }
    SECTION("only free room") {
        refused = desk.admit(third, std::nullopt, true);
        CHECK(refused.skip == ParkSkip::budget);
    }
    SECTION("RAM") {
        refused = desk.cached.admit({third, {1000 + 87 - 68 - 1, MemoryBound::host}});
        CHECK(refused.skip == ParkSkip::floor);
    }
    SECTION("no reading") {
        refused = desk.cached.admit({third, {}});
        CHECK(refused.skip == ParkSkip::unknown_reading);
    }
    CHECK_FALSE(refused.admitted);
    CHECK(refused.change.removed.empty());
    CHECK(refused.change.left.empty());
    CHECK(desk.order() == std::vector{first, second});
    CHECK(desk.cached.ledger() == before);
    CHECK(desk.cached.counters() == CacheCounters{});
    CHECK(desk.cached.tombstones().size() == 1);
}

TEST_CASE("invariant 9: a capture that fails leaves nothing behind") {
    Desk desk(limits(10'000));
    const SharedImage chat = desk.conversation(4, 100);
    const EntryId first = desk.park(chat);
    desk.cached.set_live(live_pages(chat));
    const HostLedger before = desk.cached.ledger();
    auto grown = std::make_shared<ConversationImage>(*desk.conversation(6, 100, {5}));
    grown->pages[0] = chat->pages[0];
    REQUIRE(desk.admit(grown).admitted);
    std::vector<HostBlobId> left;
    SECTION("no memory") {
        left = desk.cached.abort();
    }
    SECTION("below the floor afterwards") {
        const Commit commit = desk.cached.commit({999, MemoryBound::host});
        CHECK(commit.skip == ParkSkip::floor);
        left = commit.change.left;
    }
    SECTION("no reading afterwards") {
        const Commit commit = desk.cached.commit({});
        CHECK(commit.skip == ParkSkip::unknown_reading);
        left = commit.change.left;
    }
    CHECK(left.size() == 4);  // two pages, the checkpoint, the end
    CHECK(desk.cached.ledger() == before);
    CHECK(desk.order() == std::vector{first});
    CHECK(desk.cached.tombstones().size() == 1);
    CHECK(desk.cached.tombstones().front().cause == LossCause::floor);
}

TEST_CASE("the floor holds after a capture as well and to the byte") {
    Desk desk(limits(10'000));
    const SharedImage chat = desk.conversation(4, 100);  // 34 bytes, 7 of them resident
    const auto admit = [&](std::uint64_t available) {
        return desk.cached.admit({chat, {available, MemoryBound::host}});
    };
    CHECK(admit(1000 + 27 - 1).skip == ParkSkip::floor);
    CHECK(admit(1000 + 27).admitted);
    CHECK(desk.cached.commit({1000, MemoryBound::host}).parked);
}

TEST_CASE("what evictions give back counts towards the floor") {
    Desk desk(limits(40));
    desk.park(desk.conversation(4, 100));
    const SharedImage chat = desk.conversation(4, 200);
    // 34 bytes go, 27 are written.
    CHECK(desk.cached.admit({chat, {1000 - 7 - 1, MemoryBound::host}}).skip == ParkSkip::floor);
    CHECK(desk.cached.admit({chat, {1000 - 7, MemoryBound::host}}).admitted);
    (void)desk.cached.abort();
}

TEST_CASE("retained pages go before any entry but never those of the image itself") {
    Desk desk(limits(90));
    const SharedImage gone = desk.conversation(4, 100);
    const EntryId kept = desk.park(desk.conversation(4, 200));
    const EntryId other = desk.park(gone);
    desk.cached.set_live(live_pages(gone));
    REQUIRE(desk.cached.drop(other));
    CHECK(desk.cached.retained_bytes() == 20);
    // 34 parked and 20 retained; the image is 54 and names one of the retained pages.
    auto image = std::make_shared<ConversationImage>(*desk.conversation(8, 300));
    image->pages[0] = gone->pages[0];
    const Admission admission = desk.admit(image);
    REQUIRE(admission.admitted);
    CHECK(admission.change.retained_bytes == 10);
    CHECK(admission.change.left == std::vector{gone->pages[1].id});
    CHECK(admission.change.removed.empty());
    CHECK(desk.cached.commit(kPlenty).parked);
    CHECK(desk.cached.find(kept));
}

TEST_CASE("the guard stays whatever goes for room") {
    Desk desk(limits(70));
    const EntryId donor = desk.park(desk.conversation(4, 100));
    const EntryId other = desk.park(desk.conversation(4, 200));
    const Admission admission = desk.admit(desk.conversation(4, 300), donor);
    REQUIRE(admission.admitted);
    CHECK(admission.change.removed.front().entry == other);
    CHECK(desk.cached.commit(kPlenty).parked);
    CHECK(desk.cached.evict_oldest(donor).removed.front().entry == admission.entry);
    CHECK(desk.cached.evict_oldest(donor).removed.empty());
    CHECK(desk.cached.releasable(donor) == 0);
    CHECK(desk.cached.releasable(std::nullopt) == 1);
}

TEST_CASE("tombstones are bounded and forgotten when the conversation is here again") {
    Desk desk(limits(10));
    for (TokenId i = 0; i < 300; ++i) {
        CHECK(desk.admit(desk.conversation(4, 100 * (i + 1))).skip == ParkSkip::too_large);
    }
    CHECK(desk.cached.tombstones().size() == kTombstonesMax);
    // The oldest 44 went; the newest is read again, and some more of it.
    desk.conversation(6, 100 * 300);
    LiveHolding live = desk.session.holding();
    live.clean_pages.clear();
    desk.cached.set_live(live);
    CHECK(desk.cached.tombstones().size() == kTombstonesMax - 1);
    desk.conversation(3, 100 * 299);  // not all of it
    live = desk.session.holding();
    live.clean_pages.clear();
    desk.cached.set_live(live);
    CHECK(desk.cached.tombstones().size() == kTombstonesMax - 1);
}

}  // namespace strata::tests
