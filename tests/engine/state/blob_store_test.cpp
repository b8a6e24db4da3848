// The store of host blobs: who keeps one alive, where it lies, and that its memory goes back.
#include "strata/state/blob_store.hpp"

#include <algorithm>
#include <cstring>
#include <set>

#include <catch2/catch.hpp>

#include "snapshot_fixture.hpp"

namespace strata::tests {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

struct Room {
    HostBlob make(std::uint64_t owner, std::uint64_t bytes) {
        const HostBlob blob{store.announce(), bytes, false};
        REQUIRE(store.allocate(owner, std::span(&blob, 1)).ok());
        store.seal(blob.id, {}, {});
        return blob;
    }
    std::vector<HostBlob> announce(std::size_t count, std::uint64_t bytes) {
        std::vector<HostBlob> blobs;
        for (std::size_t i = 0; i < count; ++i) blobs.push_back({store.announce(), bytes, false});
        return blobs;
    }
    bool there(const HostBlob& blob) const { return store.find(blob.id) != nullptr; }
    void leave(const HostBlob& blob) { store.leave(std::span(&blob.id, 1)); }
    void book(const HostBlob& blob) { store.book(std::span(&blob, 1)); }

    FailingDevice device;
    CountedSegments segments;
    BlobStore store{segments, device};
};

}  // namespace

TEST_CASE("a blob lives while the books or a hold name it and no longer") {
    Room room;
    const HostBlob blob = room.make(1, 1000);
    room.book(blob);
    SECTION("the books let go last") {
        {
            const BlobHold one = room.store.hold(blob.id);
            BlobHold two = one;
            const BlobHold three = std::move(two);
            CHECK(room.store.find(blob.id)->holds == 2);
        }
        CHECK(room.there(blob));
        room.leave(blob);
    }
    SECTION("a hold lets go last") {
        BlobHold one = room.store.hold(blob.id);
        const BlobHold two = one;
        room.leave(blob);
        CHECK(room.there(blob));
        one = {};
        CHECK(room.there(blob));
        one = two;
        CHECK(room.store.find(blob.id)->holds == 2);
    }
    CHECK_FALSE(room.there(blob));
    CHECK(room.store.bytes() == 0);
    CHECK(room.segments.segments() == 0);
}

TEST_CASE("leaving what was announced and never made is nothing") {
    Room room;
    const HostBlobId id = room.store.announce();
    room.store.leave(std::span(&id, 1));
    room.store.discard(std::span(&id, 1));
    CHECK(room.store.announce() != id);
}

TEST_CASE("a sweep frees what the books deny and leaves what a hold names") {
    Room room;
    const HostBlob kept = room.make(1, 100);
    const HostBlob denied = room.make(1, 100);
    const HostBlob held = room.make(1, 100);
    for (const HostBlob& blob : {kept, denied, held}) room.book(blob);
    const BlobHold hold = room.store.hold(held.id);
    room.store.sweep([&](HostBlobId id) { return id == kept.id; });
    CHECK(room.there(kept));
    CHECK_FALSE(room.there(denied));
    CHECK(room.there(held));
    room.leave(kept);
}

TEST_CASE("blobs of one call share segments of at most 16 MiB without slack") {
    Room room;
    const auto blobs = room.announce(100, kMiB);
    REQUIRE(room.store.allocate(7, blobs).ok());
    CHECK(room.segments.mapped_bytes() == 100 * kMiB);
    CHECK(room.segments.segments() == 7);  // six of 16 and one of 4
    CHECK(room.segments.largest == kSegmentBytesMax);
    std::set<const std::byte*> places;
    for (const HostBlob& blob : blobs) {
        REQUIRE(room.store.pieces(blob.id).size() == 1);
        CHECK(room.store.pieces(blob.id).front().size() == kMiB);
        places.insert(room.store.pieces(blob.id).front().data());
    }
    CHECK(places.size() == 100);
    for (const HostBlob& blob : blobs) room.store.discard(std::span(&blob.id, 1));
}

TEST_CASE("a blob larger than a segment consists of several") {
    Room room;
    const std::uint64_t bytes = 40 * kMiB + 12345;
    const HostBlob blob{room.store.announce(), bytes, false};
    REQUIRE(room.store.allocate(1, std::span(&blob, 1)).ok());
    std::uint64_t sum = 0;
    for (const auto& piece : room.store.pieces(blob.id)) {
        CHECK(piece.size() <= kSegmentBytesMax);
        std::memset(piece.data(), 1, piece.size());
        sum += piece.size();
    }
    CHECK(sum == bytes);
    CHECK(room.store.bytes() == bytes);
    room.store.discard(std::span(&blob.id, 1));
    CHECK(room.segments.segments() == 0);
}

TEST_CASE("a freed piece goes back at once and its place serves its own conversation") {
    Room room;
    const auto blobs = room.announce(4, 5000);
    REQUIRE(room.store.allocate(1, blobs).ok());
    const std::byte* place = room.store.pieces(blobs[1].id).front().data();
    CHECK(room.segments.segments() == 1);
    room.store.discard(std::span(&blobs[1].id, 1));
    CHECK(room.segments.discards == 1);
    const auto other = room.announce(1, 5000);
    REQUIRE(room.store.allocate(2, other).ok());
    CHECK(room.segments.segments() == 2);
    const auto own = room.announce(1, 5001);  // the same whole pages of the system
    REQUIRE(room.store.allocate(1, own).ok());
    CHECK(room.store.pieces(own[0].id).front().data() == place);
    CHECK(room.segments.segments() == 2);
    for (const auto& list : {blobs, other, own}) {
        for (const HostBlob& blob : list) room.store.discard(std::span(&blob.id, 1));
    }
    CHECK(room.segments.segments() == 0);
    CHECK(room.store.mapped_bytes() == 0);
}

TEST_CASE("a segment that is locked stays whole until it is empty and is unlocked before it goes") {
    Room room;
    room.device.locks = true;
    const auto blobs = room.announce(3, 5000);
    REQUIRE(room.store.allocate(1, blobs).ok());
    CHECK(room.device.locked.size() == 1);
    room.store.discard(std::span(&blobs[0].id, 1));
    CHECK(room.segments.discards == 0);
    room.store.discard(std::span(&blobs[1].id, 1));
    CHECK(room.device.locked.size() == 1);
    room.store.discard(std::span(&blobs[2].id, 1));
    CHECK(room.device.locked.empty());
    CHECK(room.segments.segments() == 0);
}

TEST_CASE("memory is given to all blobs of a call or to none") {
    for (std::int64_t fails_at = 0; fails_at < 5; ++fails_at) {
        Room room;
        const HostBlob before = room.make(1, kMiB);
        room.segments.fails_at = room.segments.maps + fails_at;
        auto blobs = room.announce(20, kMiB);                        // two segments
        blobs.push_back({room.store.announce(), 33 * kMiB, false});  // three
        const auto refused = room.store.allocate(1, blobs);
        REQUIRE_FALSE(refused.ok());
        CHECK(refused.error().kind == RefusalKind::out_of_memory);
        CHECK(room.store.blobs() == 1);
        CHECK(room.store.bytes() == kMiB);
        CHECK(room.segments.mapped_bytes() == kMiB);
        REQUIRE(room.store.allocate(1, blobs).ok());
        for (const HostBlob& blob : blobs) room.store.discard(std::span(&blob.id, 1));
        room.store.discard(std::span(&before.id, 1));
        CHECK(room.segments.segments() == 0);
    }
}

}  // namespace strata::tests
