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

// A conversation that is here, as far as it matters to this prompt.
struct Candidate {
    std::span<const TokenId> ids;
    const Identity* identity = nullptr;
    PromptMarks marks;
    Position common = 0;                 // tokens shared with the prompt
    const ParkedEntry* entry = nullptr;  // null: the live conversation
};

struct Resume {
    ResumeSource source = ResumeSource::cold;
    Position reused = 0;
    const ParkedEntry* entry = nullptr;
    bool takes = false;
};

// Of the live conversation. At equal length its state wins, then the earlier listed checkpoint. At
// least one token is left to read: it gives the logits.
Resume longest_live_match(const PromptView& prompt, const LiveView& live, Position common) {
    const Position most = std::min(common, std::ssize(prompt.ids) - 1);
    const Position end = std::ssize(live.ids);
    Resume best;
    if (live.resumes_anywhere && most > 0 && most < end) {
        // Below F nothing but the root is shared, wherever in it reading resumes.
        const bool only_root = most < prompt.marks.first_turn;
        best = {only_root ? ResumeSource::root : ResumeSource::live, most};
    } else if (end <= most && (live.resumes_anywhere || !live.incomplete)) {
        // What a one-shot left is the live state and a root at once: the root says more.
        const CheckpointMark root{CheckpointKind::root, end};
        const auto& marks = live.checkpoints;
        const bool is_root = std::find(marks.begin(), marks.end(), root) != marks.end();
        best = {is_root ? ResumeSource::root : ResumeSource::live, end};
    }
    if (live.resumes_anywhere) return best;
    for (const CheckpointMark& mark : live.checkpoints) {
        if (mark.position <= most && mark.position > best.reused) {
            best = {source_of(mark.kind), mark.position};
        }
    }
    return best;
}

// Taking gives the entry up. What is shared with another conversation only (fewer than F), what is
// pinned, and what has more behind the resume point stays parked.
bool uses_up(const ParkedEntry& parked, Position reused, const PromptView& prompt, bool anywhere) {
    if (parked.pinned || reused < prompt.marks.first_turn) return false;
    if (reused == parked.image->end()) return true;
    if (anywhere) return reused >= last_turn_begins(*parked.image);
    const Position deepest = outline_of(*parked.image).deepest;
    return deepest > 0 && reused >= deepest;
}

Resume longest_parked_match(const PromptView& prompt, const Candidate& candidate, bool anywhere) {
    const Position most = std::min(candidate.common, std::ssize(prompt.ids) - 1);
    const ConversationImage& image = *candidate.entry->image;
    Resume best;
    if (anywhere || image.end() <= most) best.reused = std::min(most, image.end());
    for (const ImageCheckpoint& each : image.checkpoints) {
        if (each.mark.position <= most) best.reused = std::max(best.reused, each.mark.position);
    }
    if (best.reused == 0) return best;
    best.entry = candidate.entry;
    best.takes = uses_up(*best.entry, best.reused, prompt, anywhere);
    best.source = !best.takes                  ? ResumeSource::borrowed
                  : best.reused == image.end() ? ResumeSource::parked
                                               : ResumeSource::parked_checkpoint;
    return best;
}

// The longest wins; at equal length live, then the most recently parked (the larger number).
bool beats(const Resume& a, const Resume& b) {
    if (a.reused != b.reused) return a.reused > b.reused;
    return a.reused > 0 && a.entry && b.entry && a.entry->entry > b.entry->entry;
}

// The first turn (from the end of the root to F) reads the same in both.
bool same_first_turn(const PromptView& prompt, const Candidate& other) {
    const auto turn = [](std::span<const TokenId> ids, const PromptMarks& marks) {
        const Position end = std::min(marks.first_turn, std::ssize(ids));
        if (end <= marks.root) return std::span<const TokenId>{};
        return ids.subspan(static_cast<std::size_t>(marks.root),
                           static_cast<std::size_t>(end - marks.root));
    };
    const auto ours = turn(prompt.ids, prompt.marks);
    const auto theirs = turn(other.ids, other.marks);
    return !ours.empty() && std::equal(ours.begin(), ours.end(), theirs.begin(), theirs.end());
}

// Of what is here, the one that shares the most with the prompt; at equal length one of the same
// steering, which says more about why it cannot be used.
const Candidate* nearest(const PromptView& prompt, const std::vector<Candidate>& candidates) {
    const Candidate* best = nullptr;
    const auto same = [&](const Candidate& each) {
        return each.identity->steering == prompt.identity.steering;
    };
    for (const Candidate& each : candidates) {
        const bool better = !best || each.common > best->common ||
                            (each.common == best->common && same(each) && !same(*best));
        if (better) best = &each;
    }
    return best;
}

MissReason reason_of(LossCause cause) {
    switch (cause) {
        case LossCause::evicted:
            return MissReason::evicted;
        case LossCause::released:
            return MissReason::released;
        case LossCause::budget:
            return MissReason::budget;
        case LossCause::floor:
            return MissReason::floor;
        case LossCause::invalid:
            return MissReason::invalid;
        case LossCause::identity:
            return MissReason::identity;
    }
    return MissReason::fresh;
}

// The lost conversation that would have given the most, F at least; of equal ones the newest.
struct Loss {
    const Tombstone* stone = nullptr;
    Position matched = 0;
};
Loss deepest_loss(const PromptView& prompt, std::span<const Tombstone> stones) {
    Loss best;
    if (stones.empty()) return best;
    const auto hashes = hash_prefixes(prompt.ids);
    for (const Tombstone& stone : stones) {
        if (stone.steering != prompt.identity.steering) continue;
        const Position matched = stone.matched(hashes, std::ssize(prompt.ids) - 1);
        if (matched >= prompt.marks.first_turn && matched >= best.matched) best = {&stone, matched};
    }
    return best;
}

// Why nothing beyond the root comes back. A lost copy that would have given it is the nearest
// cause; then what differs from the conversation that shares the most.
void explain(PromptPlan& plan, const PromptView& prompt, const std::vector<Candidate>& candidates,
             std::span<const Tombstone> stones) {
    const Candidate* near = nearest(prompt, candidates);
    plan.common = near ? near->common : 0;
    if (const Loss loss = deepest_loss(prompt, stones); loss.stone) {
        plan.miss = reason_of(loss.stone->cause);
        plan.common = std::max(plan.common, loss.matched);
        return;
    }
    if (plan.common >= prompt.marks.first_turn) {
        const bool whole = plan.common == std::ssize(prompt.ids);
        plan.miss = near->identity->steering != prompt.identity.steering ? MissReason::steering
                    : whole                                              ? MissReason::none
                                                                         : MissReason::rewritten;
        return;
    }
    const bool level =
        std::any_of(candidates.begin(), candidates.end(), [&](const Candidate& each) {
            return each.identity->level != prompt.identity.level && same_first_turn(prompt, each);
        });
    plan.miss = level ? MissReason::level : MissReason::fresh;
}

// What the incoming conversation is at its resume point: `points` of the source that stay.
ConversationOutline incoming_outline(const PromptView& prompt, const PromptPlan& plan,
                                     const std::vector<Position>& points) {
    ConversationOutline out;
    out.ids = prompt.ids.first(static_cast<std::size_t>(plan.reused));
    out.steering = prompt.identity.steering;
    out.first_turn = prompt.marks.first_turn;
    std::copy_if(points.begin(), points.end(), std::back_inserter(out.points),
                 [&](Position point) { return point <= plan.reused; });
    return out;
}

// The rewind of a conversation that goes on drops turns that are complete: where the prompt parts
// from it lies no later than its last question. Editing or regenerating the last turn does not.
bool drops_turns(const LiveView& live, Position common) {
    return live.marks.last_question > 0 && common <= live.marks.last_question;
}

void decide_outgoing(PromptPlan& plan, const PromptView& prompt, const LiveView& live,
                     const ParkedView& parked, const Resume& resume) {
    using F = OutgoingFate;
    if (live.one_shot || live.ids.empty()) {
        plan.outgoing = live.one_shot ? F::one_shot : F::none;
        return;
    }
    const bool goes_on = !plan.switched;
    if (goes_on && (!parked.enabled || !drops_turns(live, common_prefix(prompt.ids, live.ids)))) {
        plan.outgoing = F::continues;
        return;
    }
    if (!parked.enabled) {
        plan.outgoing = F::dropped;
        return;
    }
    const ConversationOutline old =
        outline_of(live.ids, live.identity.steering, live.marks, live.checkpoints);
    const ConversationOutline source = resume.entry ? outline_of(*resume.entry->image) : old;
    if (superseded(old, incoming_outline(prompt, plan, source.points))) {
        plan.outgoing = goes_on ? F::continues : F::superseded;
        return;
    }
    plan.outgoing = goes_on ? F::park_if_free : F::park;
    if (!live.incomplete || live.resumes_anywhere) return;
    const auto deepest = std::max_element(old.points.begin(), old.points.end());
    if (deepest != old.points.end() && *deepest > 0) {
        plan.cut = *deepest;
    } else {
        plan.outgoing = goes_on ? F::continues : F::incomplete;
    }
}

std::vector<Candidate> candidates_of(const PromptView& prompt, const std::optional<LiveView>& live,
                                     const ParkedView& parked) {
    std::vector<Candidate> all;
    all.reserve(parked.entries.size() + 1);
    if (live && !live->ids.empty()) {
        all.push_back({live->ids, &live->identity, live->marks,
                       common_prefix(prompt.ids, live->ids), nullptr});
    }
    for (const ParkedEntry& each : parked.entries) {
        const ConversationImage& image = *each.image;
        all.push_back({*image.ids, &image.identity, image.marks,
                       common_prefix(prompt.ids, *image.ids), &each});
    }
    return all;
}

}  // namespace

PromptPlan plan_prompt(const PromptView& prompt, const std::optional<LiveView>& live,
                       const ParkedView& parked, Position spoilt) {
    const auto candidates = candidates_of(prompt, live, parked);
    Resume resume;
    PromptPlan plan;
    for (const Candidate& each : candidates) {
        if (each.identity->steering != prompt.identity.steering) continue;
        const Resume match = each.entry
                                 ? longest_parked_match(prompt, each, parked.resumes_anywhere)
                                 : longest_live_match(prompt, *live, each.common);
        if (!beats(match, resume)) continue;
        resume = match;
        plan.common = each.common;
    }
    plan.source = resume.source;
    plan.reused = resume.reused;
    plan.takes = resume.takes;
    if (resume.entry) plan.entry = resume.entry->entry;
    const bool beyond_root = plan.reused >= prompt.marks.first_turn;
    plan.switched = resume.entry || !beyond_root;
    plan.restored = resume.entry && beyond_root;
    plan.miss = MissReason::none;
    if (plan.switched && !plan.restored) explain(plan, prompt, candidates, parked.tombstones);
    if (spoilt > 0 && plan.switched && !plan.restored) {
        plan.miss = MissReason::invalid;
        plan.common = std::max(plan.common, spoilt);
    }
    if (live) decide_outgoing(plan, prompt, *live, parked, resume);
    return plan;
}

}  // namespace strata
