// See policy_stage.hpp.
#include "policy_stage.hpp"

#include <algorithm>

namespace strata::tests {

TokenIds joined(std::initializer_list<TokenIds> parts) {
    TokenIds all;
    for (const TokenIds& part : parts) all.insert(all.end(), part.begin(), part.end());
    return all;
}

TokenIds turn_of(TokenId role, TokenId first, std::size_t tokens) {
    TokenIds ids{kOpen, role};
    for (std::size_t i = 0; i < tokens; ++i) ids.push_back(first + static_cast<TokenId>(i));
    ids.push_back(kEnd);
    return ids;
}

PolicyStage::PolicyStage(const SimShape& shape, const CacheLimits& limits, Position root_min_tokens)
    : shape_(shape), root_min_tokens_(root_min_tokens), cache_(limits), session_(shape) {}

void PolicyStage::look() {
    held_ = held_ && cache_.bytes() <= cache_.limits().budget_bytes;
}

void PolicyStage::tell_live() {
    session_.forget(cache_.set_live(session_.holding()).left);
    look();
}

void PolicyStage::park(const PromptPlan& plan, const Asked& asked, Said& said) {
    if (plan.outgoing == OutgoingFate::superseded) cache_.count_superseded();
    if (plan.outgoing == OutgoingFate::one_shot) said.skip = ParkSkip::one_shot;
    if (plan.outgoing == OutgoingFate::incomplete) said.skip = ParkSkip::incomplete;
    const bool only_free = plan.outgoing == OutgoingFate::park_if_free;
    if (plan.outgoing != OutgoingFate::park && !only_free) return;
    if (plan.cut) session_.rewind(*plan.cut);
    const SharedImage image = session_.describe();
    const Admission admission = cache_.admit({image, asked.reading, plan.entry, only_free});
    session_.forget(admission.change.left);
    look();
    said.skip = admission.skip;
    if (!admission.admitted) return;
    const Commit commit = cache_.commit(asked.reading);
    session_.forget(commit.change.left);
    look();
    said.parked_now = commit.parked;
    if (!commit.parked) said.skip = commit.skip;
    if (!commit.parked) return;
    session_.mark_clean(*image);
    ++parks_;
}

void PolicyStage::resume(const PromptPlan& plan, const SharedImage& image, const PromptMarks& marks,
                         const Asked& asked) {
    if (plan.source == ResumeSource::live && shape_.recurrent) {
        session_.keep_checkpoint(CheckpointKind::tail);
    }
    if (image) {
        session_.load(*image, plan.reused);
    } else if (plan.reused > 0) {
        session_.rewind(plan.reused);
    } else {
        session_.begin({asked.steering, asked.level}, marks, ++conversations_);
    }
    if (plan.switched || asked.keep) session_.set_marks(marks);
    one_shot_ = plan.switched ? !asked.keep : one_shot_;
    incomplete_ = false;
    tell_live();
}

void PolicyStage::read(const TokenIds& prompt, const PromptMarks& marks, const Asked& asked) {
    const Position start = std::ssize(session_.ids());
    const Position end = asked.answers ? std::ssize(prompt) : asked.read;
    for (Position at = start; at < end; ++at) {
        if (at == marks.root && start == 0 && at >= root_min_tokens_) {
            session_.keep_checkpoint(CheckpointKind::root);
        }
        if (at == marks.last_turn && at > start && asked.keep) {
            session_.keep_checkpoint(CheckpointKind::turn);
        }
        session_.write(prompt[static_cast<std::size_t>(at)]);
    }
    incomplete_ = !asked.answers;
}

Said PolicyStage::say(const TokenIds& prompt, const Asked& asked) {
    const PromptMarks marks = mark_prompt(prompt, std::nullopt, kTurnWords);
    const auto checkpoints = session_.marks_of_checkpoints();
    const LiveView live{session_.ids(),    checkpoints, session_.marks(), session_.identity(),
                        !shape_.recurrent, one_shot_,   incomplete_};
    Said said;
    said.plan =
        plan_prompt({prompt, marks, {asked.steering, asked.level}}, live,
                    {cache_.enabled(), cache_.entries(), cache_.tombstones(), !shape_.recurrent});
    SharedImage image;
    if (said.plan.entry) {
        image =
            said.plan.takes ? cache_.take(*said.plan.entry) : cache_.borrow(*said.plan.entry, 0);
    }
    look();
    park(said.plan, asked, said);
    resume(said.plan, image, marks, asked);
    read(prompt, marks, asked);
    if (asked.answers) {
        for (TokenId id : {70 + prompt.back() % 7, 80, 81}) session_.write(id);
    }
    if (!asked.keep) {
        const auto points = session_.points();
        session_.rewind(points.empty() ? 0 : *std::max_element(points.begin(), points.end()));
    }
    tell_live();
    said.ids = session_.ids();
    return said;
}

Said PolicyStage::reply(const Said& last, TokenId first) {
    return say(joined({last.ids, {kEnd}, turn_of(kUserWord, first, 4), assistant_head()}));
}

}  // namespace strata::tests
