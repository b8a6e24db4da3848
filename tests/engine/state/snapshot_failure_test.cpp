// Nothing leaks and nothing half-done is believed: memory that ends at every index of parking,
// restoring and checkpointing, segments that are not mapped, copies that fail, and releasing
// without any memory at all.
#include <atomic>
#include <cstdlib>
#include <new>

#include <catch2/catch.hpp>

#include "snapshot_fixture.hpp"
#include "strata/state/state_hash.hpp"

namespace {

constexpr std::int64_t kNever = INT64_MAX;
// Calls of operator new until it throws; `lasting`: and from then on always.
std::atomic<std::int64_t> calls_left{kNever};
std::atomic<bool> lasting{false};

void* counted(std::size_t bytes) {
    if (calls_left != kNever && calls_left-- <= 0) {
        if (!lasting) calls_left = kNever;
        throw std::bad_alloc();
    }
    void* at = std::malloc(bytes == 0 ? 1 : bytes);
    if (at == nullptr) throw std::bad_alloc();
    return at;
}

// Memory ends after `calls` allocations while this is in scope.
struct MemoryEnds {
    explicit MemoryEnds(std::int64_t calls, bool for_good) {
        lasting = for_good;
        calls_left = calls;
    }
    ~MemoryEnds() { (void)stop(); }
    // True when it did end.
    bool stop() {
        const std::int64_t left = calls_left.exchange(kNever);
        return left == kNever || left < 0;
    }
};

}  // namespace

void* operator new(std::size_t bytes) {
    return counted(bytes);
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
    return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* at) noexcept {
    std::free(at);
}
void operator delete(void* at, std::size_t) noexcept {
    std::free(at);
}
void operator delete(void* at, const std::nothrow_t&) noexcept {
    std::free(at);
}

namespace strata::tests {
namespace {

constexpr Position kEnd = 600;
constexpr Position kMark = 300;
constexpr std::int64_t kIndexMax = 2000;  // more allocations than any of these steps makes

void read_hybrid(SnapshotStage& stage) {
    stage.read(SnapshotStage::ids(kMark, 1));
    REQUIRE(stage.session->keep_checkpoint(CheckpointKind::turn, 1).ok());
    stage.read(SnapshotStage::ids(kEnd - kMark, 2));
}

// describe() and capture() with what `ends` leaves; the books are kept in between, with memory.
bool parks(SnapshotStage& stage, ConversationImage& image, std::int64_t calls, bool for_good,
           bool& ended) {
    image = {};
    std::int64_t left = kNever;
    {
        MemoryEnds ends(calls, for_good);
        try {
            stage.session->describe(image);
        } catch (const std::bad_alloc&) {
            ended = true;
            return false;
        }
        left = calls_left;
        ended = ends.stop();
    }
    stage.books.add(image);
    bool captured = false;
    if (ended) {
        captured = stage.session->capture(image).ok();
    } else {
        MemoryEnds ends(left, for_good);
        captured = stage.session->capture(image).ok();
        ended = ends.stop();
    }
    if (!captured) stage.session->leave(stage.books.remove(image));
    return captured;
}

}  // namespace

TEST_CASE("memory that ends anywhere while parking leaves the session and the books as they were") {
    const bool for_good = GENERATE(false, true);
    SnapshotStage stage(true);
    read_hybrid(stage);
    const std::string before = state_sha256(*stage.session);
    const std::uint64_t bytes = stage.store.bytes();
    ConversationImage image;
    std::int64_t failures = 0;
    for (std::int64_t index = 0; index < kIndexMax; ++index) {
        bool ended = false;
        if (parks(stage, image, index, for_good, ended) && !ended) break;
        if (stage.books.bytes() > 0) {  // it went on without what was refused
            stage.drop(image);
        }
        ++failures;
        REQUIRE(stage.session->valid());
        REQUIRE(stage.store.bytes() == bytes);
        REQUIRE(stage.session->clean_pages().empty());
    }
    CHECK(failures > 10);
    CHECK(state_sha256(*stage.session) == before);
    CHECK(stage.session->validate(image, kEnd, {}).ok());
    stage.drop(image);
    stage.expect_nothing_left();
}

TEST_CASE("memory that ends anywhere while restoring leaves nothing that could be believed") {
    const bool for_good = GENERATE(false, true);
    SnapshotStage stage(true);
    read_hybrid(stage);
    const std::string parked = state_sha256(*stage.session);
    const ConversationImage image = stage.park(1);
    const std::uint64_t bytes = stage.store.bytes();
    std::int64_t failures = 0;
    for (std::int64_t index = 0; index < kIndexMax; ++index) {
        stage.session->reset();
        stage.session->release_spare_pages();
        REQUIRE(stage.store.bytes() == bytes);
        RestoreOutcome outcome;
        bool ended = false;
        {
            MemoryEnds ends(index, for_good);
            outcome = stage.session->restore(image, kEnd, {});
            ended = ends.stop();
        }
        if (outcome.result == RestoreResult::restored && !ended) break;
        ++failures;
        if (outcome.result == RestoreResult::restored) continue;
        REQUIRE(outcome.result == RestoreResult::failed);
        REQUIRE_FALSE(stage.session->valid());
        REQUIRE(stage.session->frontier() == 0);
        REQUIRE(stage.session->clean_pages().empty());
        REQUIRE(stage.session->checkpoints().size() == 0);
    }
    CHECK(failures > 10);
    CHECK(state_sha256(*stage.session) == parked);
    stage.drop(image);
    stage.expect_nothing_left();
}

TEST_CASE("memory that ends anywhere while a checkpoint is kept changes nothing") {
    const bool for_good = GENERATE(false, true);
    SnapshotStage stage(true);
    stage.read(SnapshotStage::ids(kMark, 1));
    std::int64_t failures = 0;
    for (std::int64_t index = 0; index < kIndexMax; ++index) {
        MemoryEnds ends(index, for_good);
        const auto kept = stage.session->keep_checkpoint(CheckpointKind::turn, 1);
        (void)ends.stop();
        if (kept.ok()) break;
        ++failures;
        REQUIRE(stage.session->checkpoints().size() == 0);
        REQUIRE(stage.store.blobs() == 0);
    }
    CHECK(failures > 3);
    stage.expect_nothing_left();
}

TEST_CASE("segments that are not mapped anywhere in a park are a refusal and nothing leaks") {
    for (const bool recurrent : {false, true}) {
        SnapshotStage stage(recurrent);
        read_hybrid(stage);
        const std::uint64_t bytes = stage.store.bytes();
        std::int64_t failures = 0;
        ConversationImage image;
        while (true) {
            stage.segments.fails_at = stage.segments.maps + failures;
            const auto captured = stage.try_park(image);
            if (captured.ok()) break;
            ++failures;
            CHECK(captured.error().kind == RefusalKind::out_of_memory);
            REQUIRE(stage.store.bytes() == bytes);
            REQUIRE(stage.session->valid());
        }
        CHECK(failures == (recurrent ? 2 : 1));  // one segment for pages, one for the end state
        CHECK(stage.session->validate(image, kEnd, {}).ok());
        stage.drop(image);
        stage.expect_nothing_left();
    }
}

TEST_CASE("a copy that fails anywhere in a park is a refusal and the session goes on") {
    SnapshotStage stage(true);
    read_hybrid(stage);
    const std::uint64_t bytes = stage.store.bytes();
    const std::string before = state_sha256(*stage.session);
    std::int64_t failures = 0;
    ConversationImage image;
    while (true) {
        stage.device->fails_at = stage.device->copies + failures;
        const auto captured = stage.try_park(image);
        stage.device->fails_at.reset();
        if (captured.ok()) break;
        ++failures;
        CHECK_THAT(captured.error().text, Catch::Contains("this copy is to fail"));
        REQUIRE(stage.store.bytes() == bytes);
    }
    CHECK(failures == 4);  // three pages and the end state
    CHECK(state_sha256(*stage.session) == before);
    stage.drop(image);
    stage.expect_nothing_left();
}

TEST_CASE("a copy that fails anywhere in a restore leaves the session invalid until it is reset") {
    SnapshotStage stage(true);
    read_hybrid(stage);
    const std::string parked = state_sha256(*stage.session);
    const ConversationImage image = stage.park(1);
    std::int64_t failures = 0;
    while (true) {
        stage.session->reset();
        stage.read(SnapshotStage::ids(100, 9));
        stage.device->fails_at = stage.device->copies + failures;
        const auto outcome = stage.session->restore(image, kEnd, {});
        stage.device->fails_at.reset();
        if (outcome.result == RestoreResult::restored) break;
        ++failures;
        CHECK(outcome.result == RestoreResult::failed);
        CHECK_THAT(outcome.text, Catch::Contains("this copy is to fail"));
        CHECK_FALSE(stage.session->valid());
        CHECK(stage.session->clean_pages().empty());
    }
    CHECK(failures == 4);
    CHECK(state_sha256(*stage.session) == parked);
    stage.drop(image);
    stage.expect_nothing_left();
}

TEST_CASE("a device without room for the pages fails a restore and nothing leaks") {
    SnapshotStage stage(false);
    stage.read(SnapshotStage::ids(kEnd, 1));
    const ConversationImage image = stage.park(1);
    stage.session->reset();
    stage.session->release_spare_pages();
    stage.device->limit_bytes =
        stage.device->held_bytes() + 2 * stage.runner.geometry().page_bytes();
    CHECK(stage.session->restore(image, kEnd, {}).result == RestoreResult::failed);
    CHECK_FALSE(stage.session->valid());
    stage.device->limit_bytes = SIZE_MAX;
    CHECK(stage.session->restore(image, kEnd, {}).result == RestoreResult::restored);
    stage.drop(image);
    stage.expect_nothing_left();
}

TEST_CASE("releasing needs no memory") {
    SnapshotStage stage(true);
    read_hybrid(stage);
    const ConversationImage image = stage.park(1);
    const auto left = stage.books.remove(image);
    {
        MemoryEnds ends(0, true);
        stage.session->leave(left);
    }
    CHECK(stage.session->clean_pages().empty());
    CHECK(stage.store.bytes() == stage.runner.geometry().state_bytes());  // the live checkpoint
    stage.expect_nothing_left();
}

}  // namespace strata::tests
