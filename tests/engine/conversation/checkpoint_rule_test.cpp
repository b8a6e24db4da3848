// Marks of a prompt, positions worth keeping, and who must go (DETAILS.md, The live conversation).
#include "strata/core/checkpoint_rule.hpp"

#include <catch2/catch.hpp>

namespace strata {
namespace {

constexpr TokenId kOpen = 1;
constexpr TurnWords kWords{kOpen, 2};

PromptMarks marks(const TokenIds& ids, std::optional<Position> root = std::nullopt,
                  const TurnWords& words = kWords) {
    return mark_prompt(ids, root, words);
}

std::vector<HeldCheckpoint> held(std::initializer_list<CheckpointKind> kinds) {
    std::vector<HeldCheckpoint> out;
    for (const CheckpointKind kind : kinds) {
        const auto n = static_cast<Position>(out.size()) + 1;
        out.push_back({{kind, n * 10}, static_cast<std::uint64_t>(n)});
    }
    return out;
}

}  // namespace

TEST_CASE("root and first turn follow the turn-open positions") {
    // System turn at 0, user turn at 4, assistant at 8.
    const TokenIds with_system{kOpen, 2, 7, 9, kOpen, 3, 7, 9, kOpen, 4};
    CHECK(marks(with_system) == PromptMarks{4, 8, 8, 4});
    // The user's turn first, assistant at 4, and a byte of text before nothing.
    const TokenIds without{kOpen, 3, 7, 9, kOpen, 4};
    CHECK(marks(without) == PromptMarks{0, 4, 4});
    // A token before the first turn belongs to the root.
    const TokenIds after_bos{50, kOpen, 3, 7, 9, kOpen, 4};
    CHECK(marks(after_bos) == PromptMarks{1, 5, 5, 1});
    // Only a system turn: no second turn tells where it ends.
    CHECK(marks({kOpen, 2, 7, 9}) == PromptMarks{0, 1, 0});
}

TEST_CASE("the request's own root wins and the first turn is the first opening behind it") {
    const TokenIds ids{kOpen, 2, 7, 9, kOpen, 3, 7, 9, kOpen, 4};
    CHECK(marks(ids, 4) == PromptMarks{4, 8, 8, 4});
    CHECK(marks(ids, 3) == PromptMarks{3, 4, 8, 4});
    CHECK(marks(ids, 9) == PromptMarks{9, 10, 8, 4});
}

TEST_CASE("without turn-open tokens there is no root and any token is beyond it") {
    const TokenIds ids{50, 51, 52};
    CHECK(marks(ids) == PromptMarks{0, 1, 0});
    CHECK(marks({kOpen, 3, 7}, std::nullopt, {-1, -1}) == PromptMarks{0, 1, 0});
}

TEST_CASE("a cold read keeps its root and its last turn") {
    const CheckpointWish wish{{100, 150, 180}, 0, 190, 0, true};
    const CheckpointLimits limits{6, 0, 100};
    CHECK(checkpoints_to_write(wish, limits) ==
          std::vector<CheckpointMark>{{CheckpointKind::root, 100}, {CheckpointKind::turn, 180}});
}

TEST_CASE("a root is kept only by a read from the start and only when long enough") {
    CheckpointWish wish{{100, 150, 180}, 0, 190, 0, true};
    const std::vector<CheckpointMark> turn_only{{CheckpointKind::turn, 180}};
    CHECK(checkpoints_to_write(wish, {6, 0, 101}) == turn_only);
    CHECK(checkpoints_to_write(wish, {6, 0, 0}) == turn_only);
    wish.resume = 1;
    CHECK(checkpoints_to_write(wish, {6, 0, 100}) == turn_only);
}

TEST_CASE("a turn below the resume point is there already") {
    CheckpointWish wish{{0, 50, 180}, 180, 190, 0, true};
    CHECK(checkpoints_to_write(wish, {6, 0, 100}).empty());
    wish.resume = 179;
    CHECK(checkpoints_to_write(wish, {6, 0, 100}).size() == 1);
}

TEST_CASE("a one-shot keeps only the root and what it asked for") {
    const CheckpointWish wish{{100, 150, 180}, 0, 190, 120, false};
    CHECK(checkpoints_to_write(wish, {6, 0, 100}) ==
          std::vector<CheckpointMark>{{CheckpointKind::root, 100}, {CheckpointKind::pin, 120}});
    CHECK_FALSE(interval_due(0, 1000, wish, {6, 100, 100}));
}

TEST_CASE("one position is kept once under its strongest name") {
    const CheckpointWish wish{{180, 185, 180}, 0, 190, 180, true};
    CHECK(checkpoints_to_write(wish, {6, 0, 100}) ==
          std::vector<CheckpointMark>{{CheckpointKind::pin, 180}});
}

TEST_CASE("nothing is kept when the prompt cache is off") {
    const CheckpointWish wish{{100, 150, 180}, 0, 190, 120, true};
    CHECK(checkpoints_to_write(wish, {0, 16, 8}).empty());
    CHECK_FALSE(interval_due(0, 1000, wish, {0, 16, 8}));
    CHECK_FALSE(room_for_checkpoint({}, {0, 16, 8}).stored);
}

TEST_CASE("an interval is due after so many tokens and not before") {
    const CheckpointWish wish{{0, 1, 0}, 0, 5000, 0, true};
    const CheckpointLimits limits{6, 100, 0};
    CHECK_FALSE(interval_due(50, 149, wish, limits));
    CHECK(interval_due(50, 150, wish, limits));
    CHECK_FALSE(interval_due(50, 5000, wish, {6, 0, 0}));
}

TEST_CASE("room is free until as many are kept as allowed and the tail is outside the count") {
    using K = CheckpointKind;
    const auto two_and_tail = held({K::tail, K::turn, K::interval});
    const CheckpointRoom room = room_for_checkpoint(two_and_tail, {3, 0, 0});
    CHECK(room.stored);
    CHECK_FALSE(room.victim);
}

TEST_CASE("the least recently used goes but never a pin and not the root while two are kept") {
    using K = CheckpointKind;
    auto full = held({K::pin, K::root, K::turn, K::interval});
    CHECK(room_for_checkpoint(full, {4, 0, 0}).victim == 2U);
    full[2].last_used = 99;
    CHECK(room_for_checkpoint(full, {4, 0, 0}).victim == 3U);
    const auto only_root = held({K::root});
    CHECK(room_for_checkpoint(only_root, {1, 0, 0}).victim == 0U);
    const auto root_and_pin = held({K::root, K::pin});
    CHECK_FALSE(room_for_checkpoint(root_and_pin, {2, 0, 0}).stored);
    const auto tail_and_turn = held({K::tail, K::turn});
    CHECK(room_for_checkpoint(tail_and_turn, {1, 0, 0}).victim == 1U);
}

}  // namespace strata
