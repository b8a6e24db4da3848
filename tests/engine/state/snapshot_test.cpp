// Parking and restoring: what comes back is what went, byte for byte, and nothing is copied twice.
// The fake model's rows are hashes of everything below them, so a wrong row changes all that
// follow.
#include <algorithm>
#include <stdexcept>
#include <thread>

#include <catch2/catch.hpp>

#include "snapshot_fixture.hpp"
#include "strata/state/state_hash.hpp"

namespace strata::tests {
namespace {

TokenIds first(const TokenIds& ids, Position count) {
    return {ids.begin(), ids.begin() + count};
}

TokenIds after(const TokenIds& ids, Position count) {
    return {ids.begin() + count, ids.end()};
}

// State and logits of a conversation that was read in one go, never parked.
struct Straight {
    Straight(bool recurrent, const TokenIds& ids) {
        SnapshotStage fresh(recurrent);
        fresh.read(ids, 512);
        state = state_sha256(*fresh.session);
        logits = fresh.logits;
    }
    std::string state;
    std::vector<float> logits;
};

void keep(SnapshotStage& stage, CheckpointKind kind = CheckpointKind::interval) {
    REQUIRE(stage.session->keep_checkpoint(kind, 1).ok());
}

// Reads `ids`, with a checkpoint at `mark`.
void read_with_checkpoint(SnapshotStage& stage, const TokenIds& ids, Position mark) {
    stage.read(first(ids, mark));
    keep(stage);
    stage.read(after(ids, mark));
}

}  // namespace

// Invariant (8) of core/conversation_cache.hpp.
TEST_CASE("a restored state is byte for byte the parked one at every edge of a page") {
    const bool recurrent = GENERATE(false, true);
    for (const Position end : {1, 2, 63, 64, 65, 255, 256, 257, 511, 512, 513, 769}) {
        SnapshotStage stage(recurrent);
        const TokenIds ids = SnapshotStage::ids(end, 1);
        stage.read(ids);
        const std::string parked = state_sha256(*stage.session);
        const ConversationImage image = stage.park(1);
        stage.session->reset();
        stage.read(SnapshotStage::ids(300, 2));
        const auto outcome = stage.restore(image, end);
        REQUIRE(outcome.result == RestoreResult::restored);
        CHECK(stage.session->valid());
        CHECK(stage.session->frontier() == end);
        CHECK(state_sha256(*stage.session) == parked);
        CHECK(stage.session->differs_from(image, end) == std::nullopt);
        CHECK(std::ranges::equal(stage.session->ids(), ids));
        stage.drop(image);
        stage.expect_nothing_left();
    }
}

TEST_CASE("a tail of 1 to 130 tokens read after a restore gives what was never parked") {
    const bool recurrent = GENERATE(false, true);
    SnapshotStage stage(recurrent);
    const TokenIds ids = SnapshotStage::ids(384, 3);
    SnapshotStage straight(recurrent);
    for (Position tail = 1; tail <= 130; ++tail) {
        const Position end = 384 - tail;
        stage.session->reset();
        stage.read(first(ids, end), 512);
        const ConversationImage image = stage.park(static_cast<std::uint64_t>(tail));
        stage.session->reset();
        REQUIRE(stage.restore(image, end).result == RestoreResult::restored);
        stage.read(after(ids, end), 64);
        straight.session->reset();
        straight.read(ids, 512);
        REQUIRE(stage.logits == straight.logits);
        REQUIRE(state_sha256(*stage.session) == state_sha256(*straight.session));
        stage.drop(image);
    }
    stage.expect_nothing_left();
}

TEST_CASE("a snapshot is resumed at a checkpoint below its end with the pages it needs") {
    const bool recurrent = GENERATE(false, true);
    for (const Position mark : {1, 64, 254, 255, 256, 257, 300, 511, 512, 513}) {
        SnapshotStage stage(recurrent);
        const TokenIds ids = SnapshotStage::ids(600, 4);
        read_with_checkpoint(stage, ids, mark);
        const ConversationImage image = stage.park(1);
        stage.session->reset();
        const auto outcome = stage.restore(image, mark);
        REQUIRE(outcome.result == RestoreResult::restored);
        const auto pages = static_cast<std::uint64_t>((mark + 255) / 256);
        const Geometry& g = stage.runner.geometry();
        CHECK(outcome.bytes == pages * g.page_bytes() + g.state_bytes());
        CHECK(stage.session->clean_pages().size() == pages);
        CHECK(state_sha256(*stage.session) == Straight(recurrent, first(ids, mark)).state);
        CHECK(stage.session->checkpoints().has(mark));
        const TokenIds other = SnapshotStage::ids(270, 5);
        stage.read(other);
        TokenIds whole = first(ids, mark);
        whole.insert(whole.end(), other.begin(), other.end());
        const Straight straight(recurrent, whole);
        CHECK(stage.logits == straight.logits);
        CHECK(state_sha256(*stage.session) == straight.state);
        // The donor is whole still.
        stage.session->reset();
        REQUIRE(stage.restore(image, 600).result == RestoreResult::restored);
        CHECK(state_sha256(*stage.session) == Straight(recurrent, ids).state);
        stage.drop(image);
        stage.expect_nothing_left();
    }
}

TEST_CASE("an attention-only snapshot is resumed at every row") {
    SnapshotStage stage(false);
    const TokenIds ids = SnapshotStage::ids(513, 6);
    stage.read(ids);
    const ConversationImage image = stage.park(1);
    for (const Position at : {1, 2, 100, 255, 256, 257, 400, 512, 513}) {
        REQUIRE(stage.restore(image, at).result == RestoreResult::restored);
        CHECK(state_sha256(*stage.session) == Straight(false, first(ids, at)).state);
    }
    stage.drop(image);
    stage.expect_nothing_left();
}

TEST_CASE("where a snapshot cannot be resumed there is no match and nothing changes") {
    SnapshotStage stage(true);
    const TokenIds ids = SnapshotStage::ids(400, 7);
    read_with_checkpoint(stage, ids, 300);
    const ConversationImage image = stage.park(1);
    const std::string before = state_sha256(*stage.session);
    for (const Position at : {-1, 0, 1, 256, 299, 301, 399, 401}) {
        CHECK(stage.session->restore(image, at, {}).result == RestoreResult::no_match);
        CHECK_FALSE(stage.session->validate(image, at, {}).ok());
    }
    CHECK(stage.session->valid());
    CHECK(state_sha256(*stage.session) == before);
    stage.drop(image);
    stage.expect_nothing_left();
}

TEST_CASE("parking a continued conversation copies only its new pages") {
    const bool recurrent = GENERATE(false, true);
    SnapshotStage stage(recurrent);
    const std::uint64_t page = stage.runner.geometry().page_bytes();
    const std::uint64_t state = stage.runner.geometry().state_bytes();
    stage.read(SnapshotStage::ids(1000, 8));  // three full pages and a part of a fourth
    ConversationImage one;
    one.conversation = 1;
    auto captured = stage.try_park(one);
    REQUIRE(captured.ok());
    CHECK(captured->pages == 4);
    CHECK(captured->bytes == 4 * page + state);

    SECTION("at once: nothing new") {
        ConversationImage two;
        stage.device->bytes_out = 0;
        captured = stage.try_park(two);
        REQUIRE(captured.ok());
        CHECK(captured->pages == 0);
        CHECK(captured->bytes == state);
        CHECK(stage.device->bytes_out == state);
        stage.drop(two);
    }
    SECTION("a row more: the page it lies in") {
        stage.read(SnapshotStage::ids(1, 9));
        ConversationImage two;
        captured = stage.try_park(two);
        REQUIRE(captured.ok());
        CHECK(captured->bytes == page + state);
        const auto same = [](const HostBlob& a, const HostBlob& b) { return a.id == b.id; };
        CHECK(std::equal(one.pages.begin(), one.pages.begin() + 3, two.pages.begin(), same));
        CHECK(one.pages[3].id != two.pages[3].id);
        CHECK(stage.store.bytes() == 5 * page + 2 * state);
        stage.drop(two);
    }
    SECTION("restored and continued: the same") {
        stage.session->reset();
        REQUIRE(stage.restore(one, 1000).result == RestoreResult::restored);
        stage.read(SnapshotStage::ids(280, 9));  // ends at 1280: two pages
        ConversationImage two;
        captured = stage.try_park(two);
        REQUIRE(captured.ok());
        CHECK(captured->pages == 2);
        stage.drop(two);
    }
    stage.drop(one);
    stage.expect_nothing_left();
}

TEST_CASE("rewinding inside a page leaves it clean until a row is written") {
    SnapshotStage stage(false);
    const TokenIds ids = SnapshotStage::ids(700, 10);
    stage.read(ids);
    const ConversationImage image = stage.park(1);
    CHECK(stage.session->clean_pages() == [&] {
        auto pages = image.pages;
        for (HostBlob& each : pages) each.resident = true;
        return pages;
    }());
    REQUIRE(stage.session->rewind(300));
    CHECK(stage.session->clean_pages().size() == 2);
    ConversationImage shorter;
    const auto captured = stage.try_park(shorter);
    REQUIRE(captured.ok());
    CHECK(captured->bytes == 0);
    stage.read(SnapshotStage::ids(10, 11));
    CHECK(stage.session->clean_pages().size() == 1);
    // Both are whole, though one of them holds rows beyond its own end in its last page.
    REQUIRE(stage.restore(shorter, 300).result == RestoreResult::restored);
    CHECK(state_sha256(*stage.session) == Straight(false, first(ids, 300)).state);
    REQUIRE(stage.restore(image, 700).result == RestoreResult::restored);
    CHECK(state_sha256(*stage.session) == Straight(false, ids).state);
    stage.drop(shorter);
    stage.drop(image);
    stage.expect_nothing_left();
}

TEST_CASE("a forward pass that fails has made its pages dirty") {
    SnapshotStage stage(false);
    stage.read(SnapshotStage::ids(300, 12));
    const ConversationImage image = stage.park(1);
    stage.runner.on_pass = [](const FakePass&) { throw std::runtime_error("stumbled"); };
    REQUIRE(stage.session->reserve(301).ok());
    const TokenIds one = SnapshotStage::ids(1, 13);
    REQUIRE_FALSE(stage.session->read(one, stage.logits).ok());
    CHECK(stage.session->clean_pages().size() == 1);
    stage.runner.on_pass = nullptr;
    REQUIRE(stage.restore(image, 300).result == RestoreResult::restored);
    CHECK(stage.session->valid());
    stage.drop(image);
    stage.expect_nothing_left();
}

TEST_CASE("chats that borrow one root hold its full pages and its state once") {
    const bool recurrent = GENERATE(false, true);
    SnapshotStage stage(recurrent);
    const std::uint64_t page = stage.runner.geometry().page_bytes();
    const std::uint64_t state = stage.runner.geometry().state_bytes();
    const TokenIds root = SnapshotStage::ids(600, 14);  // two full pages, and 88 rows
    stage.read(root);
    keep(stage, CheckpointKind::root);
    stage.read(SnapshotStage::ids(50, 100));
    std::vector<ConversationImage> chats{stage.park(1)};
    for (std::uint64_t chat = 2; chat <= 10; ++chat) {
        REQUIRE(stage.restore(chats.front(), 600).result == RestoreResult::restored);
        stage.read(SnapshotStage::ids(50, 99 + chat));
        chats.push_back(stage.park(chat));
    }
    // Each has one page of its own, in which the root ends, and its end state.
    CHECK(stage.store.bytes() == 2 * page + state + 10 * (page + state));
    CHECK(stage.books.bytes() == stage.store.bytes());
    for (std::uint64_t chat = 1; chat <= 10; ++chat) {
        const ConversationImage& image = chats[chat - 1];
        REQUIRE(stage.restore(image, 650).result == RestoreResult::restored);
        TokenIds whole = root;
        const TokenIds own = SnapshotStage::ids(50, chat == 1 ? 100 : 99 + chat);
        whole.insert(whole.end(), own.begin(), own.end());
        CHECK(state_sha256(*stage.session) == Straight(recurrent, whole).state);
        stage.drop(image);
    }
    stage.expect_nothing_left();
}

TEST_CASE("checkpoints come back with their order of use and the resume point as the newest") {
    SnapshotStage stage(true);
    stage.read(SnapshotStage::ids(100, 15));
    keep(stage, CheckpointKind::root);
    stage.read(SnapshotStage::ids(100, 16));
    keep(stage, CheckpointKind::turn);
    stage.read(SnapshotStage::ids(100, 17));
    REQUIRE(stage.session->rewind(200));
    stage.read(SnapshotStage::ids(100, 18));
    const ConversationImage image = stage.park(1);
    stage.session->reset();
    SECTION("at the end: the end state is the tail") {
        REQUIRE(stage.restore(image, 300).result == RestoreResult::restored);
        const auto held = stage.session->checkpoints().held();
        REQUIRE(held.size() == 3);
        CHECK(held[0].mark == CheckpointMark{CheckpointKind::root, 100});
        CHECK(held[1].mark == CheckpointMark{CheckpointKind::turn, 200});
        CHECK(held[2].mark == CheckpointMark{CheckpointKind::tail, 300});
        CHECK(held[0].last_used < held[1].last_used);
        CHECK(held[1].last_used < held[2].last_used);
        // It is stored already: parking again copies nothing at all.
        stage.device->bytes_out = 0;
        const ConversationImage again = stage.park(1);
        CHECK(stage.device->bytes_out == 0);
        CHECK(again.end_state.id == image.end_state.id);
        stage.drop(again);
    }
    SECTION("at a checkpoint: what lies beyond is not its own") {
        REQUIRE(stage.restore(image, 100).result == RestoreResult::restored);
        REQUIRE(stage.session->checkpoints().size() == 1);
        CHECK(stage.session->checkpoints().has(100));
    }
    stage.drop(image);
    stage.expect_nothing_left();
}

TEST_CASE("what a live conversation still needs outlives the entry it came from") {
    SnapshotStage stage(true);
    const TokenIds ids = SnapshotStage::ids(600, 19);
    read_with_checkpoint(stage, ids, 300);
    const ConversationImage image = stage.park(1);
    REQUIRE(stage.restore(image, 600).result == RestoreResult::restored);
    stage.drop(image);
    // Its pages are dirty again, its checkpoint is there.
    CHECK(stage.session->clean_pages().empty());
    CHECK(stage.store.bytes() == 2 * stage.runner.geometry().state_bytes());
    CHECK(state_sha256(*stage.session) == Straight(true, ids).state);
    REQUIRE(stage.session->rewind(300));
    CHECK(state_sha256(*stage.session) == Straight(true, first(ids, 300)).state);
    stage.expect_nothing_left();
}

TEST_CASE("several threads move the same bytes as one") {
    const bool recurrent = GENERATE(false, true);
    SnapshotStage stage(recurrent);
    stage.device->threads = 4;
    const Position end = 200 * kPageTokens;  // above 2 MiB: below it one thread moves all
    stage.read(SnapshotStage::ids(end, 20), 512);
    const std::string parked = state_sha256(*stage.session);
    ConversationImage image;
    stage.session->describe(image);
    stage.books.add(image);
    const auto thread = std::this_thread::get_id();
    std::int64_t steps = 0;
    REQUIRE(stage.session
                ->capture(image,
                          [&] {
                              ++steps;
                              if (std::this_thread::get_id() != thread) steps = -1000;
                          })
                .ok());
    CHECK(steps > 0);
    CHECK(stage.store.bytes() > std::uint64_t{2} << 20);
    stage.session->reset();
    REQUIRE(stage.restore(image, end).result == RestoreResult::restored);
    CHECK(state_sha256(*stage.session) == parked);
    stage.drop(image);
    stage.expect_nothing_left();
}

}  // namespace strata::tests
