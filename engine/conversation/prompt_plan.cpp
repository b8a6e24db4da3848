// See core/prompt_plan.hpp.
#include "strata/core/prompt_plan.hpp"

#include <algorithm>

namespace strata {

namespace {

Position common_prefix(std::span<const TokenId> a, std::span<const TokenId> b) {
    const std::size_t shorter = std::min(a.size(), b.size());
    const auto parted =
        std::mismatch(a.begin(), a.begin() + static_cast<std::ptrdiff_t>(shorter), b.begin());
    return parted.first - a.begin();
}

ResumeSource source_of(CheckpointKind kind) {
    switch (kind) {
        case CheckpointKind::tail:
            return ResumeSource::tail;
        case CheckpointKind::interval:
            return ResumeSource::interval;
        case CheckpointKind::turn:
            return ResumeSource::turn;
        case CheckpointKind::root:
            return ResumeSource::root;
        case CheckpointKind::pin:
            return ResumeSource::pin;
    }
    return ResumeSource::cold;
}

struct Resume {
    ResumeSource source = ResumeSource::cold;
    Position reused = 0;
};

// The longest match; at equal length the live state wins, then the earlier listed checkpoint. At
// least one token is left to read: it gives the logits.
Resume longest_match(const PromptView& prompt, const LiveView& live, Position common) {
    const Position most = std::min(common, std::ssize(prompt.ids) - 1);
    const Position end = std::ssize(live.ids);
    Resume best;
    if (end <= most) {
        // What a one-shot left is the live state and a root at once: the root says more.
        const CheckpointMark root{CheckpointKind::root, end};
        const auto& marks = live.checkpoints;
        const bool is_root = std::find(marks.begin(), marks.end(), root) != marks.end();
        best = {is_root ? ResumeSource::root : ResumeSource::live, end};
    } else if (live.resumes_anywhere && most > 0) {
        // Below F nothing but the root is shared, wherever in it reading resumes.
        const bool only_root = most < prompt.marks.first_turn;
        best = {only_root ? ResumeSource::root : ResumeSource::live, most};
    }
    if (live.resumes_anywhere) return best;
    for (const CheckpointMark& mark : live.checkpoints) {
        if (mark.position <= most && mark.position > best.reused) {
            best = {source_of(mark.kind), mark.position};
        }
    }
    return best;
}

// The first turn (from the end of the root to F) reads the same in both.
bool same_first_turn(const PromptView& prompt, const LiveView& live) {
    const auto turn = [](std::span<const TokenId> ids, const PromptMarks& marks) {
        const Position end = std::min(marks.first_turn, std::ssize(ids));
        if (end <= marks.root) return std::span<const TokenId>{};
        return ids.subspan(static_cast<std::size_t>(marks.root),
                           static_cast<std::size_t>(end - marks.root));
    };
    const auto ours = turn(prompt.ids, prompt.marks);
    const auto theirs = turn(live.ids, live.marks);
    return !ours.empty() && std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end());
}

MissReason reason(const PromptView& prompt, const LiveView& live, Position common) {
    const bool shares_more_than_root = common >= prompt.marks.first_turn;
    if (shares_more_than_root) {
        if (prompt.identity.steering != live.identity.steering) return MissReason::steering;
        return common == std::ssize(prompt.ids) ? MissReason::none : MissReason::rewritten;
    }
    const bool other_level = prompt.identity.level != live.identity.level;
    return other_level && same_first_turn(prompt, live) ? MissReason::level : MissReason::fresh;
}

}  // namespace

PromptPlan plan_prompt(const PromptView& prompt, const std::optional<LiveView>& live) {
    PromptPlan plan;
    if (!live || live->ids.empty()) return plan;
    plan.common = common_prefix(prompt.ids, live->ids);
    if (prompt.identity.steering == live->identity.steering) {
        const Resume resume = longest_match(prompt, *live, plan.common);
        plan.source = resume.source;
        plan.reused = resume.reused;
    }
    plan.switched = plan.reused < prompt.marks.first_turn;
    plan.miss = plan.switched ? reason(prompt, *live, plan.common) : MissReason::none;
    return plan;
}

}  // namespace strata
