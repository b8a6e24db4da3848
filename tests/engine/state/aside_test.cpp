// Parking and restoring on a device that copies by itself: nothing waits that need not, nobody
// writes what a copy still reads, and what comes back is what was parked.
#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <stdexcept>
#include <thread>

#include <catch2/catch.hpp>

#include "aside_device.hpp"
#include "snapshot_fixture.hpp"
#include "strata/backend/device_fault.hpp"
#include "strata/state/state_hash.hpp"

namespace strata::tests {
namespace {

constexpr Position kLength = 600;  // two pages and a part
constexpr std::size_t kMuch = std::size_t{1} << 30;

struct AsideStage {
    AsideStage(bool recurrent, std::size_t room_bytes, std::size_t row_bytes = 0)
        : device(std::make_shared<AsideDevice>(room_bytes)),
          runner(FakeShape{recurrent, 97, 512, row_bytes}, device),
          store(segments, *device),
          session(LiveSession::open(runner, store).value()),
          logits(97) {}

    void read(const TokenIds& more) {
        for (std::size_t done = 0; done < more.size();) {
            const auto count = std::min<std::size_t>(64, more.size() - done);
            REQUIRE(session->reserve(session->frontier() + static_cast<Position>(count)).ok());
            REQUIRE(session->read(std::span(more).subspan(done, count), logits).ok());
            done += count;
        }
    }
    ConversationImage park(std::uint64_t conversation) {
        ConversationImage image;
        image.conversation = conversation;
        session->describe(image);
        books.add(image);
        const auto captured = session->capture(image);
        REQUIRE(captured.ok());
        return image;
    }
    void drop(const ConversationImage& image) { session->leave(books.remove(image)); }
    RestoreOutcome begin_restore(const ConversationImage& image) {
        REQUIRE(session->validate(image, image.end(), {}).ok());
        return session->restore(image, image.end(), {});
    }
    RestoreOutcome restore(const ConversationImage& image) {
        const auto outcome = begin_restore(image);
        CHECK(session->await_arrival().good);
        return outcome;
    }
    // Another conversation, over the same pages.
    void read_other(std::uint64_t seed, Position length = kLength) {
        session->reset();
        read(SnapshotStage::ids(length, seed));
    }
    // Nothing of what the device kept is found any more.
    void open_new_session() {
        session.reset();
        session = LiveSession::open(runner, store).value();
    }
    void await_all(const ConversationImage& image) {
        for (const HostBlob& page : image.pages) store.await(page.id);
        for (const ImageCheckpoint& each : image.checkpoints) store.await(each.running_state.id);
        store.await(image.end_state.id);
    }

    std::shared_ptr<AsideDevice> device;
    FakeRunner runner;
    CountedSegments segments;
    BlobStore store;
    std::unique_ptr<LiveSession> session;
    Books books;
    std::vector<float> logits;
};

}  // namespace

TEST_CASE("a conversation is copied while the next one is read") {
    const bool recurrent = GENERATE(false, true);
    AsideStage stage(recurrent, kMuch);
    stage.read(SnapshotStage::ids(kLength, 1));
    const auto before = state_sha256(*stage.session);
    stage.device->hold();
    const auto image = stage.park(1);
    CHECK(stage.store.filling_bytes() > 0);
    stage.read_other(2);  // would never come back if it waited
    CHECK(stage.device->copied == 0);
    CHECK(stage.store.filling(image.pages[0].id));
    stage.device->let_go();
    stage.await_all(image);
    CHECK(stage.store.filling_bytes() == 0);
    CHECK(stage.store.find(image.pages[0].id)->sealed);
    stage.open_new_session();
    REQUIRE(stage.restore(image).result == RestoreResult::restored);
    CHECK(state_sha256(*stage.session) == before);
    CHECK(stage.device->bytes_in > 0);
    CHECK(stage.session->differs_from(image, image.end()) == std::nullopt);
    stage.session->reset();
    stage.drop(image);
    CHECK(stage.store.blobs() == 0);
    CHECK(stage.segments.segments() == 0);
    CHECK(stage.device->locked.empty());
}

TEST_CASE("a conversation that is cut short and goes on writes no row under its copy") {
    const std::size_t room = GENERATE(std::size_t{0}, kMuch);
    AsideStage stage(false, room);
    stage.read(SnapshotStage::ids(kLength, 1));
    const auto before = state_sha256(*stage.session);
    if (room == 0) stage.device->limit_bytes = stage.device->held_bytes();
    stage.device->sleeps = true;
    if (room > 0) stage.device->hold();
    const auto image = stage.park(1);
    REQUIRE(stage.session->rewind(520));
    stage.read(SnapshotStage::ids(40, 3));
    const auto after = state_sha256(*stage.session);
    stage.device->let_go();
    stage.await_all(image);
    CHECK(state_sha256(*stage.session) == after);
    REQUIRE(stage.restore(image).result == RestoreResult::restored);
    CHECK(state_sha256(*stage.session) == before);
    CHECK(stage.session->differs_from(image, image.end()) == std::nullopt);
    REQUIRE(stage.session->rewind(520));
    stage.read(SnapshotStage::ids(40, 3));
    CHECK(state_sha256(*stage.session) == after);
}

TEST_CASE("without room on the device a page waits for its copy") {
    const bool recurrent = GENERATE(false, true);
    AsideStage stage(recurrent, 0);
    stage.device->sleeps = true;
    stage.read(SnapshotStage::ids(kLength, 1));
    const auto before = state_sha256(*stage.session);
    stage.device->limit_bytes = stage.device->held_bytes();  // not one byte more
    const auto first = stage.park(1);
    stage.read_other(2);
    const auto other = state_sha256(*stage.session);
    const auto second = stage.park(2);
    REQUIRE(stage.restore(first).result == RestoreResult::restored);
    CHECK(state_sha256(*stage.session) == before);
    CHECK(stage.session->differs_from(first, first.end()) == std::nullopt);
    REQUIRE(stage.restore(second).result == RestoreResult::restored);
    CHECK(state_sha256(*stage.session) == other);
    CHECK(stage.device->held_bytes() <= stage.device->limit_bytes);
}

TEST_CASE("a conversation that comes back soon is still on the device") {
    const bool recurrent = GENERATE(false, true);
    AsideStage stage(recurrent, kMuch);
    stage.read(SnapshotStage::ids(kLength, 1));
    const auto before = state_sha256(*stage.session);
    stage.device->hold();
    const auto first = stage.park(1);
    stage.read_other(2);
    const auto other = state_sha256(*stage.session);
    const auto second = stage.park(2);
    const auto back = stage.restore(first);  // before a byte of it is in host memory
    CHECK(back.result == RestoreResult::restored);
    CHECK(back.bytes == 0);
    CHECK(state_sha256(*stage.session) == before);
    stage.read(SnapshotStage::ids(30, 4));
    REQUIRE(stage.restore(second).result == RestoreResult::restored);
    CHECK(state_sha256(*stage.session) == other);
    stage.device->let_go();
    stage.await_all(first);
    stage.await_all(second);
    stage.open_new_session();
    REQUIRE(stage.restore(first).result == RestoreResult::restored);
    CHECK(state_sha256(*stage.session) == before);
    REQUIRE(stage.restore(second).result == RestoreResult::restored);
    CHECK(state_sha256(*stage.session) == other);
    CHECK(stage.device->bytes_in > 0);
}

TEST_CASE("the device keeps no more of a conversation than it is told to") {
    const bool recurrent = GENERATE(false, true);
    AsideStage stage(recurrent, kMuch);
    const auto page = stage.runner.geometry().page_bytes();
    const std::uint64_t limit = GENERATE(0, 1, 2) * page;
    stage.session->limit_kept(limit);
    stage.read(SnapshotStage::ids(kLength, 1));
    const auto before = state_sha256(*stage.session);
    const auto image = stage.park(1);
    stage.await_all(image);
    stage.read_other(2);
    const auto back = stage.restore(image);
    REQUIRE(back.result == RestoreResult::restored);
    CHECK(back.bytes >= 3 * page - limit);
    if (limit == 0) CHECK(back.bytes == 3 * page + stage.runner.geometry().state_bytes());
    CHECK(state_sha256(*stage.session) == before);
}

TEST_CASE("what is dropped while it is copied leaves nothing behind") {
    AsideStage stage(true, kMuch);
    stage.read(SnapshotStage::ids(kLength, 1));
    stage.device->hold();
    const auto image = stage.park(1);
    while (stage.device->begun == 0) std::this_thread::yield();
    std::jthread later([&stage] {
        std::this_thread::sleep_for(std::chrono::milliseconds(30));
        stage.device->let_go();
    });
    stage.session->reset();
    stage.drop(image);
    CHECK(stage.store.blobs() == 0);
    CHECK(stage.store.filling_bytes() == 0);
    CHECK(stage.segments.segments() == 0);
    CHECK(stage.device->locked.empty());
}

TEST_CASE("a session that ends takes its copies along") {
    AsideStage stage(true, kMuch);
    stage.device->sleeps = true;
    stage.read(SnapshotStage::ids(kLength, 1));
    const auto image = stage.park(1);
    stage.session.reset();
    CHECK_FALSE(stage.store.filling(image.pages[1].id));
    CHECK(stage.store.filling_bytes() == 0);
}

TEST_CASE("a rewind finds a checkpoint whose copy goes on") {
    AsideStage stage(true, kMuch);
    stage.read(SnapshotStage::ids(kLength, 1));
    const auto before = state_sha256(*stage.session);
    stage.device->hold();
    REQUIRE(stage.session->keep_checkpoint(CheckpointKind::turn, 1).ok());
    stage.read(SnapshotStage::ids(70, 5));
    REQUIRE(stage.session->rewind(kLength));
    CHECK(state_sha256(*stage.session) == before);
    stage.read(SnapshotStage::ids(70, 5));
    stage.device->let_go();
    const auto image = stage.park(1);
    stage.await_all(image);
    stage.open_new_session();
    REQUIRE(stage.session->validate(image, kLength, {}).ok());
    REQUIRE(stage.session->restore(image, kLength, {}).result == RestoreResult::restored);
    CHECK(stage.session->await_arrival().good);
    CHECK(state_sha256(*stage.session) == before);
}

TEST_CASE("a byte that changed in host memory is found while it moves") {
    const bool recurrent = GENERATE(false, true);
    const bool reads = GENERATE(false, true);
    AsideStage stage(recurrent, kMuch);
    stage.read(SnapshotStage::ids(kLength, 1));
    const auto before = state_sha256(*stage.session);
    const auto image = stage.park(1);
    stage.await_all(image);
    const auto which = recurrent ? image.end_state.id : image.pages[1].id;
    std::byte& changed = stage.store.find(which)->pieces.front()[17];
    changed ^= std::byte{4};
    stage.open_new_session();
    REQUIRE(stage.session->restore(image, image.end(), {}).result == RestoreResult::restored);
    REQUIRE(stage.session->arriving());
    if (reads) stage.read(SnapshotStage::ids(20, 7));
    CHECK_FALSE(stage.session->await_arrival().good);
    CHECK_FALSE(stage.session->arriving());
    CHECK_FALSE(stage.session->valid());
    CHECK(stage.session->frontier() == 0);
    stage.read_other(2);
    CHECK(stage.session->valid());
    // Nothing of what came is taken for what it should have been.
    changed ^= std::byte{4};
    const auto moved = stage.device->bytes_in;
    const auto back = stage.restore(image);
    REQUIRE(back.result == RestoreResult::restored);
    CHECK(back.bytes == 3 * stage.runner.geometry().page_bytes() +
                            (recurrent ? stage.runner.geometry().state_bytes() : 0));
    CHECK(stage.device->bytes_in == moved + back.bytes);
    CHECK(state_sha256(*stage.session) == before);
}

// Rows so large that a page comes in parts.
constexpr std::size_t kLargeRow = 4096;
constexpr std::size_t kLargeRoom = std::size_t{100} << 20;

TEST_CASE("the first pass goes on behind rows that come layer by layer") {
    const bool recurrent = GENERATE(false, true);
    const auto more = GENERATE(as<std::int64_t>{}, 1, 30);
    const Position length = GENERATE(as<Position>{}, kLength, 2 * kPageTokens);
    AsideStage stage(recurrent, kLargeRoom, kLargeRow);
    stage.read(SnapshotStage::ids(length, 1));
    const auto before = state_sha256(*stage.session);
    const auto image = stage.park(1);
    stage.await_all(image);
    stage.read(SnapshotStage::ids(more, 3));
    const auto after = state_sha256(*stage.session);
    const auto logits = stage.logits;
    stage.open_new_session();

    const auto began = std::chrono::steady_clock::now();
    REQUIRE(stage.begin_restore(image).result == RestoreResult::restored);
    const std::chrono::duration<double, std::milli> begun =
        std::chrono::steady_clock::now() - began;
    REQUIRE(stage.session->arriving());
    CHECK(stage.device->stages_begun == stage.runner.geometry().attention_layers());
    CHECK(stage.device->bytes_in == 0);  // nobody has waited
    stage.read(SnapshotStage::ids(more, 3));
    CHECK(stage.logits == logits);
    stage.device->copies_ms = 30;
    const auto outcome = stage.session->await_arrival();
    CHECK(outcome.good);
    CHECK(outcome.late_ms >= 30 - begun.count());
    stage.device->copies_ms = 0;
    CHECK(state_sha256(*stage.session) == after);
    CHECK(stage.session->await_arrival().late_ms == 0);  // nothing is on its way
    stage.session->reset();
    REQUIRE(stage.restore(image).result == RestoreResult::restored);
    CHECK(state_sha256(*stage.session) == before);
}

TEST_CASE("what is on its way may be let go at any time") {
    const bool recurrent = GENERATE(false, true);
    const int how = GENERATE(0, 1, 2, 3);
    AsideStage stage(recurrent, kLargeRoom, kLargeRow);
    stage.read(SnapshotStage::ids(kLength, 1));
    const auto before = state_sha256(*stage.session);
    const auto image = stage.park(1);
    stage.await_all(image);
    stage.open_new_session();
    REQUIRE(stage.begin_restore(image).result == RestoreResult::restored);
    switch (how) {
        case 0:
            stage.session->reset();
            break;
        case 1:
            stage.read_other(2);
            break;
        case 2:  // once more, over itself
            REQUIRE(stage.restore(image).result == RestoreResult::restored);
            CHECK(state_sha256(*stage.session) == before);
            break;
        default:
            stage.open_new_session();
    }
    if (how != 2) {
        REQUIRE(stage.restore(image).result == RestoreResult::restored);
        CHECK(state_sha256(*stage.session) == before);
    }
    // The bytes stay as long as they are read, whoever drops them.
    stage.open_new_session();
    REQUIRE(stage.begin_restore(image).result == RestoreResult::restored);
    stage.drop(image);
    stage.read(SnapshotStage::ids(30, 3));
    CHECK(stage.session->await_arrival().good);
    REQUIRE(stage.session->rewind(stage.session->frontier()));
    stage.session->reset();
    CHECK(stage.store.blobs() == 0);
    CHECK(stage.segments.segments() == 0);
    CHECK(stage.device->locked.empty());
}

TEST_CASE("a copy that failed is a part that is not there") {
    AsideStage stage(false, kMuch);
    stage.read(SnapshotStage::ids(kLength, 1));
    stage.device->fails = [] { throw std::runtime_error("this copy is to fail"); };
    const auto image = stage.park(1);
    stage.await_all(image);
    CHECK_FALSE(stage.session->validate(image, image.end(), {}).ok());
    stage.session->reset();
    stage.drop(image);
    CHECK(stage.store.blobs() == 0);
}

TEST_CASE("a state that nobody had memory to copy is not kept") {
    AsideStage stage(true, 0);
    stage.read(SnapshotStage::ids(kLength, 1));
    stage.device->limit_bytes = stage.device->held_bytes();  // no room for a copy on the device
    const auto before = state_sha256(*stage.session);
    stage.device->fails = [] { throw std::bad_alloc(); };
    CHECK_FALSE(stage.session->keep_checkpoint(CheckpointKind::turn, 1).ok());
    CHECK(stage.session->checkpoints().size() == 0);
    ConversationImage image;
    image.conversation = 1;
    stage.session->describe(image);
    CHECK_FALSE(stage.session->capture(image).ok());
    CHECK(stage.store.blobs() == 0);
    CHECK(state_sha256(*stage.session) == before);
    stage.device->fails = nullptr;
    CHECK(stage.session->keep_checkpoint(CheckpointKind::turn, 1).ok());
}

TEST_CASE("a device that fails while it copies ends what waits for it") {
    AsideStage stage(false, kMuch);
    stage.read(SnapshotStage::ids(kLength, 1));
    stage.device->fails = [] { throw DeviceFault("lost"); };
    const auto image = stage.park(1);
    CHECK_THROWS_AS(stage.await_all(image), DeviceFault);
}

TEST_CASE("kept memory is found by its content in any order and given away once") {
    AsideDevice device(kMuch);
    CountedSegments segments;
    BlobStore store(segments, device);
    DevicePages pages(device, store);
    constexpr std::size_t kPages = 40;
    std::map<HostBlobId, void*> at;
    std::vector<HostBlobId> order;
    for (std::size_t i = 0; i < kPages; ++i) {
        Buffer memory = device.allocate(100 + i).value();
        order.push_back(store.announce());
        at[order.back()] = memory.address();
        pages.put(memory, order.back());
    }
    std::mt19937_64 random(GENERATE(1, 2, 3));
    std::shuffle(order.begin() + 10, order.end(), random);  // the first ones in the order of put()
    for (std::size_t i = 0; i < kPages; ++i) {
        if (random() % 4 == 0) pages.look_again();
        for (std::size_t other = 0; other < kPages; ++other) {
            REQUIRE(pages.find(order[other]) == (other < i ? nullptr : at[order[other]]));
        }
        const auto taken = pages.take(order[i]);
        REQUIRE(taken);
        CHECK(taken->address() == at[order[i]]);
        CHECK_FALSE(pages.take(order[i]));
    }
    CHECK_FALSE(pages.has_unnamed());
}

TEST_CASE("conversations that change places at random are what they were") {
    const bool recurrent = GENERATE(false, true);
    const std::size_t room = GENERATE(std::size_t{0}, std::size_t{3} << 19, kMuch);
    AsideStage stage(recurrent, room);
    stage.device->sleeps = true;
    std::mt19937_64 random(11);
    struct Parked {
        ConversationImage image;
        std::string hash;
    };
    std::map<std::uint64_t, Parked> parked;
    std::uint64_t live = 0;
    for (std::uint64_t step = 1; step <= 60; ++step) {
        if (live != 0) {
            const auto hash = state_sha256(*stage.session);
            const auto image = stage.park(live);
            REQUIRE(parked.emplace(live, Parked{image, hash}).second);
        }
        if (parked.size() > 3) {  // one of them is evicted, whatever its copies are doing
            auto victim = parked.begin();
            std::advance(victim, static_cast<std::ptrdiff_t>(random() % parked.size()));
            stage.drop(victim->second.image);
            parked.erase(victim);
        }
        if (parked.size() < 2 || random() % 3 == 0) {
            live = step;
            stage.read_other(step, static_cast<Position>(200 + random() % 700));
            continue;
        }
        auto next = parked.begin();
        std::advance(next, static_cast<std::ptrdiff_t>(random() % parked.size()));
        live = next->first;
        REQUIRE(stage.restore(next->second.image).result == RestoreResult::restored);
        REQUIRE(state_sha256(*stage.session) == next->second.hash);
        REQUIRE(stage.session->differs_from(next->second.image, next->second.image.end()) ==
                std::nullopt);
        stage.drop(next->second.image);
        parked.erase(next);
        stage.read(SnapshotStage::ids(static_cast<std::int64_t>(1 + random() % 90), step));
    }
    stage.session->reset();
    for (const auto& [id, entry] : parked) stage.drop(entry.image);
    CHECK(stage.store.blobs() == 0);
    CHECK(stage.segments.segments() == 0);
    CHECK(stage.device->locked.empty());
}

}  // namespace strata::tests
