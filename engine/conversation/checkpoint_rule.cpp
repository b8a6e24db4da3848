// See core/checkpoint_rule.hpp.
#include "strata/core/checkpoint_rule.hpp"

#include <algorithm>

namespace strata {

PromptMarks mark_prompt(std::span<const TokenId> prompt, std::optional<Position> root,
                        const TurnWords& words) {
    std::vector<Position> opens;
    if (words.turn_open >= 0) {
        for (std::size_t i = 0; i < prompt.size(); ++i) {
            if (prompt[i] == words.turn_open) opens.push_back(static_cast<Position>(i));
        }
    }
    PromptMarks marks;
    if (root) {
        marks.root = *root;
    } else if (!opens.empty()) {
        const auto after = static_cast<std::size_t>(opens.front()) + 1;
        const bool has_system = words.system_word >= 0 && after < prompt.size() &&
                                prompt[after] == words.system_word && opens.size() > 1;
        marks.root = has_system ? opens[1] : opens[0];
    }
    const auto first = std::upper_bound(opens.begin(), opens.end(), marks.root);
    marks.first_turn = first == opens.end() ? marks.root + 1 : *first;
    marks.last_turn = opens.empty() ? 0 : opens.back();
    marks.last_question = opens.size() < 2 ? 0 : opens[opens.size() - 2];
    return marks;
}

std::vector<CheckpointMark> checkpoints_to_write(const CheckpointWish& wish,
                                                 const CheckpointLimits& limits) {
    std::vector<CheckpointMark> marks;
    if (limits.kept == 0) return marks;
    // Root, turn and pin: no more, so it never grows (GCC 12 at -O2 takes growing for an overflow).
    marks.reserve(3);
    const Position root = wish.marks.root;
    if (wish.resume == 0 && limits.root_min_tokens > 0 && root >= limits.root_min_tokens &&
        root <= wish.prompt_tokens) {
        marks.push_back({CheckpointKind::root, root});
    }
    const Position turn = wish.marks.last_turn;
    if (wish.keep && turn > wish.resume && turn < wish.prompt_tokens) {
        marks.push_back({CheckpointKind::turn, turn});
    }
    if (wish.pin > 0 && wish.pin >= wish.resume && wish.pin <= wish.prompt_tokens) {
        marks.push_back({CheckpointKind::pin, wish.pin});
    }
    std::sort(marks.begin(), marks.end(), [](const CheckpointMark& a, const CheckpointMark& b) {
        return a.position != b.position ? a.position < b.position : a.kind > b.kind;
    });
    const auto same = [](const CheckpointMark& a, const CheckpointMark& b) {
        return a.position == b.position;
    };
    marks.erase(std::unique(marks.begin(), marks.end(), same), marks.end());
    return marks;
}

bool interval_due(Position since, Position chunk_end, const CheckpointWish& wish,
                  const CheckpointLimits& limits) {
    return wish.keep && limits.kept > 0 && limits.every_tokens > 0 &&
           chunk_end - since >= limits.every_tokens;
}

CheckpointRoom room_for_checkpoint(std::span<const HeldCheckpoint> held,
                                   const CheckpointLimits& limits) {
    std::int64_t counted = 0;
    std::optional<std::size_t> oldest;
    for (std::size_t i = 0; i < held.size(); ++i) {
        const CheckpointKind kind = held[i].mark.kind;
        if (kind == CheckpointKind::tail) continue;
        ++counted;
        const bool stays =
            kind == CheckpointKind::pin || (kind == CheckpointKind::root && limits.kept >= 2);
        if (!stays && (!oldest || held[i].last_used < held[*oldest].last_used)) oldest = i;
    }
    if (counted < limits.kept) return {true, std::nullopt};
    if (!oldest || limits.kept == 0) return {false, std::nullopt};
    return {true, oldest};
}

}  // namespace strata
