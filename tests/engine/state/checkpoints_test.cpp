// The store of checkpoints: one a position, one tail, the stronger name, use refreshes.
#include "strata/state/checkpoints.hpp"

#include <catch2/catch.hpp>

#include "snapshot_fixture.hpp"

namespace strata {
namespace {

// A store of images of four bytes, each with a value of its own.
struct Images {
    StateImage image(int value) {
        const HostBlob blob{store.announce(), 4, false};
        REQUIRE(store.allocate(1, std::span(&blob, 1)).ok());
        store.pieces(blob.id).front().front() = static_cast<std::byte>(value);
        store.seal(blob.id, {}, {});
        return store.hold(blob.id);
    }
    std::byte value(const StateImage& image) const {
        return store.find(image.id())->pieces.front().front();
    }

    tests::FakeDevice device;
    tests::CountedSegments segments;
    BlobStore store{segments, device};
};

std::vector<CheckpointMark> marks(const Checkpoints& store) {
    return {store.marks().begin(), store.marks().end()};
}

}  // namespace

TEST_CASE("one position is held once and the stronger kind names it") {
    Images images;
    Checkpoints store;
    store.add({CheckpointKind::turn, 10}, images.image(1));
    store.add({CheckpointKind::interval, 10}, images.image(2));
    CHECK(marks(store) == std::vector<CheckpointMark>{{CheckpointKind::turn, 10}});
    store.add({CheckpointKind::pin, 10}, images.image(3));
    CHECK(images.store.blobs() == 1);
    CHECK(marks(store) == std::vector<CheckpointMark>{{CheckpointKind::pin, 10}});
    CHECK(images.value(store.at(10)) == std::byte{3});
}

TEST_CASE("a tail replaces the tail and stands beside a checkpoint of its position") {
    Images images;
    Checkpoints store;
    store.add({CheckpointKind::turn, 10}, images.image(1));
    store.add({CheckpointKind::tail, 10}, images.image(2));
    CHECK(store.size() == 2);
    CHECK(store.counted() == 1);
    store.add({CheckpointKind::tail, 20}, images.image(3));
    CHECK(store.size() == 2);
    CHECK(store.counted() == 1);
    CHECK(images.value(store.at(20)) == std::byte{3});
}

TEST_CASE("rewinding drops what lies beyond and keeps what lies at the position") {
    Images images;
    Checkpoints store;
    for (const Position position : {10, 20, 30}) {
        store.add({CheckpointKind::interval, position}, images.image(static_cast<int>(position)));
    }
    store.remove_beyond(20);
    CHECK(store.size() == 2);
    CHECK(store.has(20));
    CHECK_FALSE(store.has(30));
    CHECK_FALSE(store.at(30));
    CHECK(images.store.blobs() == 2);
}

TEST_CASE("using a checkpoint makes it the most recent") {
    Images images;
    Checkpoints store;
    store.add({CheckpointKind::interval, 10}, images.image(1));
    store.add({CheckpointKind::interval, 20}, images.image(2));
    CHECK(store.held()[0].last_used < store.held()[1].last_used);
    store.use(10);
    CHECK(store.held()[0].last_used > store.held()[1].last_used);
    CHECK(store.held()[0].mark == store.marks()[0]);
}

}  // namespace strata
