// The store of checkpoints: one a position, one tail, the stronger name, use refreshes.
#include "strata/state/checkpoints.hpp"

#include <catch2/catch.hpp>

namespace strata {
namespace {

StateImage image(int value) {
    return std::make_shared<const std::vector<std::byte>>(4, static_cast<std::byte>(value));
}

std::vector<CheckpointMark> marks(const Checkpoints& store) {
    return {store.marks().begin(), store.marks().end()};
}

}  // namespace

TEST_CASE("one position is held once and the stronger kind names it") {
    Checkpoints store;
    store.add({CheckpointKind::turn, 10}, image(1));
    store.add({CheckpointKind::interval, 10}, image(2));
    CHECK(marks(store) == std::vector<CheckpointMark>{{CheckpointKind::turn, 10}});
    store.add({CheckpointKind::pin, 10}, image(3));
    CHECK(marks(store) == std::vector<CheckpointMark>{{CheckpointKind::pin, 10}});
    CHECK(store.use(10)->front() == std::byte{3});
}

TEST_CASE("a tail replaces the tail and stands beside a checkpoint of its position") {
    Checkpoints store;
    store.add({CheckpointKind::turn, 10}, image(1));
    store.add({CheckpointKind::tail, 10}, image(2));
    CHECK(store.size() == 2);
    CHECK(store.counted() == 1);
    store.add({CheckpointKind::tail, 20}, image(3));
    CHECK(store.size() == 2);
    CHECK(store.counted() == 1);
    CHECK(store.use(20)->front() == std::byte{3});
}

TEST_CASE("rewinding drops what lies beyond and keeps what lies at the position") {
    Checkpoints store;
    for (const Position position : {10, 20, 30}) {
        store.add({CheckpointKind::interval, position}, image(static_cast<int>(position)));
    }
    store.remove_beyond(20);
    CHECK(store.size() == 2);
    CHECK(store.has(20));
    CHECK_FALSE(store.has(30));
    CHECK(store.use(30) == nullptr);
}

TEST_CASE("using a checkpoint makes it the most recent") {
    Checkpoints store;
    store.add({CheckpointKind::interval, 10}, image(1));
    store.add({CheckpointKind::interval, 20}, image(2));
    CHECK(store.held()[0].last_used < store.held()[1].last_used);
    (void)store.use(10);
    CHECK(store.held()[0].last_used > store.held()[1].last_used);
    CHECK(store.held()[0].mark == store.marks()[0]);
}

}  // namespace strata
