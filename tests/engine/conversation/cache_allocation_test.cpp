// Invariant 9 where memory ends: whichever allocation of a step fails, the books are as they were
// before it, and the step can be taken again.
#include <cstdlib>
#include <functional>
#include <new>

#include <catch2/catch.hpp>

#include "sim_session.hpp"

namespace {

// Allocations until one fails; below zero: none does. Only this test program's own.
std::int64_t allocations_left = -1;

void* allocate(std::size_t bytes) {
    if (allocations_left == 0) throw std::bad_alloc();
    if (allocations_left > 0) --allocations_left;
    void* memory = std::malloc(bytes > 0 ? bytes : 1);
    if (!memory) throw std::bad_alloc();
    return memory;
}

}  // namespace

void* operator new(std::size_t bytes) {
    return allocate(bytes);
}
void* operator new[](std::size_t bytes) {
    return allocate(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* memory, const std::nothrow_t&) noexcept {
    std::free(memory);
}
void operator delete(void* memory) noexcept {
    std::free(memory);
}
void operator delete[](void* memory) noexcept {
    std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
    std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
    std::free(memory);
}

namespace strata::tests {
namespace {

const MemoryReading kPlenty{std::uint64_t{1} << 40, MemoryBound::host};

struct Desk {
    Desk() {
        for (TokenId first : {100, 200, 300}) {
            const SharedImage image = conversation(4, first);
            (void)cached.admit({image, kPlenty});
            (void)cached.commit(kPlenty);
            if (first == 100) live_pages = image->pages;
        }
        cached.set_live({outline_of({}, "", {}, {}), live_pages});
        (void)cached.evict_oldest(std::nullopt);  // a tombstone, and retained pages
        more = conversation(6, 400);
        again = conversation(8, 300);
    }

    SharedImage conversation(Position tokens, TokenId first) {
        session.begin({}, {0, 1, 0, 0}, 1);
        for (Position i = 0; i < tokens; ++i) {
            session.write(first + static_cast<TokenId>(i));
            if (i == 1) session.keep_checkpoint(CheckpointKind::turn);
        }
        return session.describe();
    }

    SimSession session{{true, 10, 7}};
    ConversationCache cached{{110, 4, 1000, 6}};
    std::vector<HostBlob> live_pages;
    SharedImage more;   // for which something must go
    SharedImage again;  // which supersedes what is parked
};

// Runs `step` with each allocation failing in turn until none fails; after each failure the books
// must be those before it.
void fail_everywhere(const std::function<void(Desk&)>& before,
                     const std::function<void(Desk&)>& step) {
    bool failed = true;
    for (std::int64_t index = 0; failed; ++index) {
        REQUIRE(index < 1000);
        Desk desk;
        before(desk);
        const HostLedger ledger = desk.cached.ledger();
        const CacheCounters counters = desk.cached.counters();
        const std::size_t stones = desk.cached.tombstones().size();
        std::vector<EntryId> order;
        for (const ParkedEntry& each : desk.cached.entries()) order.push_back(each.entry);
        allocations_left = index;
        failed = false;
        try {
            step(desk);
        } catch (const std::bad_alloc&) {
            failed = true;
        }
        allocations_left = -1;
        if (!failed) break;
        INFO("allocation " << index);
        CHECK(desk.cached.ledger() == ledger);
        CHECK(desk.cached.counters() == counters);
        CHECK(desk.cached.tombstones().size() == stones);
        std::vector<EntryId> after;
        for (const ParkedEntry& each : desk.cached.entries()) after.push_back(each.entry);
        CHECK(after == order);
        step(desk);
    }
}

void nothing(Desk&) {}

}  // namespace

TEST_CASE("an admission that runs out of memory anywhere changed nothing") {
    fail_everywhere(nothing, [](Desk& desk) { (void)desk.cached.admit({desk.more, kPlenty}); });
    fail_everywhere(nothing, [](Desk& desk) { (void)desk.cached.admit({desk.more, {}}); });
}

TEST_CASE("a commit that runs out of memory anywhere changed nothing and can be aborted") {
    const auto admitted = [](Desk& desk) { (void)desk.cached.admit({desk.again, kPlenty}); };
    fail_everywhere(admitted, [](Desk& desk) { (void)desk.cached.commit(kPlenty); });
    Desk desk;
    admitted(desk);
    allocations_left = 0;
    const auto left = desk.cached.abort();
    allocations_left = -1;
    CHECK(left.size() == 6);
}

TEST_CASE("taking and telling who is live run out of memory without a trace") {
    const EntryId newest = 3;
    fail_everywhere(nothing, [&](Desk& desk) { (void)desk.cached.take(newest); });
    const auto taken = [&](Desk& desk) { (void)desk.cached.take(newest); };
    fail_everywhere(taken, [](Desk& desk) {
        desk.cached.set_live({outline_of(*desk.again->ids, "", {}, {}), desk.live_pages});
    });
    Desk desk;
    taken(desk);
    allocations_left = 0;
    CHECK(desk.cached.undo_take());
    desk.cached.forget_live();
    allocations_left = -1;
    CHECK(desk.cached.entries().back().entry == newest);
}

TEST_CASE("releasing and dropping run out of memory without a trace") {
    fail_everywhere(nothing, [](Desk& desk) { (void)desk.cached.evict_oldest(std::nullopt); });
    fail_everywhere(nothing, [](Desk& desk) { (void)desk.cached.release_retained(); });
    fail_everywhere(nothing, [](Desk& desk) { (void)desk.cached.clear(); });
    fail_everywhere(nothing, [](Desk& desk) { (void)desk.cached.unpin(2); });
    fail_everywhere(nothing, [](Desk& desk) { desk.cached.discard(2, Removal::invalid); });
}

}  // namespace strata::tests
