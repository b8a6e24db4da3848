// See engine/parked_conversations.hpp.
#include "engine/parked_conversations.hpp"

#include <algorithm>
#include <memory>
#include <utility>

#include "engine/units.hpp"
#include "strata/core/invariant.hpp"

namespace strata {

namespace {

// 400 ms of looks every 10 ms: seen were up to 300. What other programs take meanwhile is not
// waited for longer than that.
constexpr int kLooksMax = 40;
constexpr std::uint64_t kShareNotWaitedFor = 8;

ConversationStep step_of(Removal why) {
    switch (why) {
        case Removal::budget:
        case Removal::slots:
            return ConversationStep::evict;
        case Removal::superseded:
            return ConversationStep::supersede;
        case Removal::released:
            return ConversationStep::release;
        case Removal::command:
        case Removal::invalid:
        case Removal::identity:
            return ConversationStep::drop;
    }
    return ConversationStep::drop;
}

}  // namespace

ParkedConversations::ParkedConversations(const CacheSettings& settings, const HostMemory& memory,
                                         LiveSession& session, const Clock& clock)
    : settings_(settings),
      memory_(memory),
      session_(&session),
      clock_(clock),
      cache_(settings.cache),
      pressure_({settings.cache.floor_bytes, settings.hysteresis_bytes, settings.cache.slots}),
      last_check_(clock_()) {
    session_->limit_kept(enabled() ? settings.device_pool_bytes : 0);
}

ParkedView ParkedConversations::view() const {
    return {enabled(), cache_.entries(), cache_.tombstones(), !session_->geometry().recurrent()};
}

std::int64_t ParkedConversations::now_ms() const {
    return std::chrono::duration_cast<std::chrono::milliseconds>(clock_().time_since_epoch())
        .count();
}

// What is on its way into host memory is taken already, though the OS may not know it yet.
MemoryReading ParkedConversations::read() {
    last_reading_ = memory_.read();
    if (auto& available = last_reading_.available_bytes) {
        *available -= std::min<std::uint64_t>(*available, session_->store().filling_bytes());
    }
    return last_reading_;
}

// The books' figures after the step go with every event.
void ParkedConversations::say(ConversationEvent event, ConversationEvents& events) const {
    event.parked = std::ssize(cache_.entries());
    event.held_bytes = cache_.bytes();
    event.retained_bytes = cache_.retained_bytes();
    event.budget_bytes = settings_.cache.budget_bytes;
    event.available_bytes = last_reading_.available_bytes;
    event.floor_bytes = settings_.cache.floor_bytes;
    event.evictions = cache_.counters().evictions();
    events.conversation(event);
}

// What a step of the books removed: the bytes go, and each loss is told.
void ParkedConversations::apply(const BookChange& change, ConversationEvents& events) {
    session_->leave(change.left);
    for (const RemovedEntry& gone : change.removed) {
        ConversationEvent event;
        event.step = step_of(gone.why);
        event.entry = gone.entry;
        event.conversation = gone.image->conversation;
        event.tokens = gone.image->end();
        event.bytes = gone.bytes;
        event.removal = gone.why;
        event.label = gone.image->label;
        say(std::move(event), events);
    }
}

// --- pressure ---

PressureHoldings ParkedConversations::holdings(std::optional<EntryId> guarded) const {
    PressureHoldings held;
    held.held_bytes = cache_.bytes();
    held.retained_bytes = cache_.retained_bytes();
    held.releasable = cache_.releasable(guarded);
    held.parked = std::ssize(cache_.entries());
    return held;
}

// The reading after `released` bytes went. The kernel counts freed pages late when they lie in
// lists of its processors: without patience the next conversation would go for memory that is free.
MemoryReading ParkedConversations::read_after(std::uint64_t released, bool answering) {
    const auto before = last_reading_.available_bytes;
    MemoryReading reading = read();
    if (answering || !before) return reading;
    const std::uint64_t expected = *before + released - released / kShareNotWaitedFor;
    for (int look = 0; look < kLooksMax; ++look) {
        if (!reading.available_bytes || *reading.available_bytes >= expected) break;
        memory_.pause();
        reading = read();
    }
    return reading;
}

void ParkedConversations::check(PressureWhere where, std::optional<EntryId> guarded, bool answering,
                                ConversationEvents& events) {
    if (!enabled()) return;
    const TimePoint began = clock_();
    last_check_ = began;
    PressureStep step = pressure_.begin(where, read(), holdings(guarded), !answering);
    while (step != PressureStep::done) {
        const std::uint64_t held = cache_.bytes();
        if (step == PressureStep::release_retained) {
            apply(cache_.release_retained(), events);
        } else if (step == PressureStep::release_oldest) {
            apply(cache_.evict_oldest(guarded), events);
        }
        if (!answering) memory_.settle();
        step = pressure_.next(read_after(held - cache_.bytes(), answering), holdings(guarded));
    }
    const PressureReport& report = pressure_.report();
    // TRIM is answered also when nothing was released.
    if (report.event || where == PressureWhere::command) {
        events.pressure(report, ms_between(began, clock_()));
    }
}

void ParkedConversations::check_if_due(PressureWhere where, ConversationEvents& events) {
    if (!enabled() || settings_.pressure_period.count() == 0) return;
    if (clock_() - last_check_ >= settings_.pressure_period)
        check(where, std::nullopt, true, events);
}

std::optional<TimePoint> ParkedConversations::next_idle_check() const {
    if (!enabled()) return std::nullopt;
    const std::int64_t slice = idle_slice_ms(last_reading_, settings_.cache.floor_bytes,
                                             settings_.pressure_period.count());
    if (slice <= 0) return std::nullopt;
    return last_check_ + std::chrono::milliseconds(slice);
}

// --- a request ---

bool ParkedConversations::validated(const PromptPlan& plan, std::string_view steering,
                                    ConversationEvents& events) {
    if (!plan.entry) return true;
    const ParkedEntry* entry = cache_.find(*plan.entry);
    STRATA_INVARIANT(entry != nullptr);
    const auto good = session_->validate(*entry->image, plan.reused, steering);
    if (good.ok()) return true;
    const bool identity = good.error().fault == SnapshotFault::identity;
    apply(cache_.discard(*plan.entry, identity ? Removal::identity : Removal::invalid), events);
    return false;
}

void ParkedConversations::set_aside(const PromptPlan& plan, const LiveFacts& outgoing,
                                    std::uint64_t branch, CacheFigures& figures,
                                    ConversationEvents& events, const Step& step) {
    if (!enabled()) return;
    if (plan.entry) {
        incoming_ = plan.takes ? cache_.take(*plan.entry) : cache_.borrow(*plan.entry, now_ms());
        STRATA_INVARIANT(incoming_ != nullptr);
    }
    switch (plan.outgoing) {
        case OutgoingFate::none:
        case OutgoingFate::continues:
        case OutgoingFate::dropped:
            return;
        case OutgoingFate::park:
            return park(outgoing, plan, figures, events, step);
        case OutgoingFate::park_if_free: {
            // The branch that is left behind is another conversation from here on.
            LiveFacts left = outgoing;
            left.conversation = branch;
            return park(left, plan, figures, events, step);
        }
        case OutgoingFate::superseded:
            cache_.count_superseded();
            return say_superseded(outgoing, events);
        case OutgoingFate::one_shot:
            return skip(outgoing, ParkSkip::one_shot, nullptr, figures, events);
        case OutgoingFate::incomplete:
            return skip(outgoing, ParkSkip::incomplete, nullptr, figures, events);
    }
}

// The outgoing conversation is a copy of what is here already.
void ParkedConversations::say_superseded(const LiveFacts& outgoing,
                                         ConversationEvents& events) const {
    ConversationEvent event;
    event.step = ConversationStep::supersede;
    event.conversation = outgoing.conversation;
    event.tokens = session_->frontier();
    event.label = outgoing.label;
    say(std::move(event), events);
}

void ParkedConversations::skip(const LiveFacts& outgoing, ParkSkip why, const Admission* admission,
                               CacheFigures& figures, ConversationEvents& events) {
    figures.parked_now = false;
    figures.park_skip = why;
    ConversationEvent event;
    event.step = ConversationStep::skip;
    event.conversation = outgoing.conversation;
    event.tokens = session_->frontier();
    event.skip = why;
    event.label = outgoing.label;
    if (admission) {
        event.needed_bytes = admission->new_bytes;
        event.free_bytes = admission->free_bytes;
    }
    say(std::move(event), events);
}

void ParkedConversations::park(const LiveFacts& outgoing, const PromptPlan& plan,
                               CacheFigures& figures, ConversationEvents& events,
                               const Step& step) {
    const TimePoint began = clock_();
    if (plan.cut && !session_->rewind(*plan.cut)) {
        return skip(outgoing, ParkSkip::incomplete, nullptr, figures, events);
    }
    auto image = std::make_shared<ConversationImage>();
    image->conversation = outgoing.conversation;
    image->label = outgoing.label;
    image->identity = outgoing.identity;
    image->marks = outgoing.marks;
    image->hits = outgoing.hits;
    image->active_ms = now_ms();
    session_->describe(*image);
    ParkRequest request{image, read(), plan.entry, plan.outgoing == OutgoingFate::park_if_free};
    const std::int64_t lost = cache_.counters().lost;
    const Admission admission = cache_.admit(request);
    apply(admission.change, events);
    if (!admission.admitted) {
        if (admission.superseded) say_superseded(outgoing, events);
        if (admission.skip) skip(outgoing, *admission.skip, &admission, figures, events);
        if (cache_.counters().lost > lost) {
            ConversationEvent event;
            event.step = ConversationStep::lost;
            event.conversation = outgoing.conversation;
            event.tokens = session_->frontier();
            event.skip = admission.skip;
            event.label = outgoing.label;
            say(std::move(event), events);
        }
        return;
    }
    const auto captured = session_->capture(*image, step);
    if (!captured) {
        session_->leave(cache_.abort());
        return skip(outgoing, ParkSkip::allocation, &admission, figures, events);
    }
    const Commit commit = cache_.commit(read());
    figures.park_ms = ms_between(began, clock_());
    figures.parked_now = commit.parked;
    if (commit.parked) {
        ConversationEvent event;
        event.step = ConversationStep::park;
        event.entry = admission.entry;
        event.conversation = outgoing.conversation;
        event.tokens = image->end();
        event.bytes = captured->bytes;
        event.shared_bytes = admission.shared_bytes;
        event.ms = figures.park_ms;
        event.label = outgoing.label;
        say(std::move(event), events);
    }
    apply(commit.change, events);
    if (!commit.parked && commit.skip) skip(outgoing, *commit.skip, &admission, figures, events);
}

Result<std::optional<LiveFacts>> ParkedConversations::bring_back(const PromptPlan& plan,
                                                                 std::string_view steering,
                                                                 CacheFigures& figures,
                                                                 ConversationEvents& events,
                                                                 const Step& step) {
    STRATA_INVARIANT(incoming_ != nullptr && plan.entry);
    const SharedImage image = std::exchange(incoming_, nullptr);
    const TimePoint began = clock_();
    const RestoreOutcome outcome = session_->restore(*image, plan.reused, steering, step);
    if (outcome.result == RestoreResult::spoilt) {
        session_->reset();
        give_up(plan, *image, events);
        return std::optional<LiveFacts>();
    }
    if (outcome.result != RestoreResult::restored) {
        return refuse("restoring " + std::to_string(plan.reused) +
                      " tokens failed: " + outcome.text);
    }
    const TimePoint left = clock_();
    figures.restore_ms = ms_between(began, left);
    figures.restored_bytes = outcome.bytes;
    if (settings_.verify) {
        if (const auto differs = session_->differs_from(*image, plan.reused)) {
            return refuse("the restored conversation differs from its snapshot: " + *differs);
        }
    }
    ConversationEvent event;
    event.step = plan.takes ? ConversationStep::restore : ConversationStep::borrow;
    event.entry = plan.entry;
    event.conversation = image->conversation;
    event.tokens = plan.reused;
    event.bytes = outcome.bytes;
    event.took_end = plan.source == ResumeSource::parked;
    event.label = image->label;
    back_ = {image, std::move(event), began, left};
    return std::optional(LiveFacts{image->conversation, image->label, image->marks, image->identity,
                                   image->hits + 1});
}

std::optional<TimePoint> ParkedConversations::arrived(const PromptPlan& plan, CacheFigures& figures,
                                                      ConversationEvents& events,
                                                      const Step& step) {
    Back back = std::exchange(back_, {});
    if (!back.image) return TimePoint::min();
    const ArrivalOutcome outcome = session_->await_arrival(step);
    if (!outcome.good) {
        figures.restore_ms.reset();
        figures.restored_bytes.reset();
        session_->reset();
        give_up(plan, *back.image, events);
        return std::nullopt;
    }
    // The session may have begun to count before this clock was read.
    const TimePoint ended = std::min(later_by(outcome.late_ms, back.left), clock_());
    figures.restore_ms = ms_between(back.began, ended);
    back.event.ms = figures.restore_ms;
    say(std::move(back.event), events);
    return ended;
}

// What was taken is no entry any more, but counts until somebody else is live.
void ParkedConversations::give_up(const PromptPlan& plan, const ConversationImage& image,
                                  ConversationEvents& events) {
    if (!plan.takes) return apply(cache_.discard(*plan.entry, Removal::invalid), events);
    const std::uint64_t held = cache_.bytes();
    live_is({}, events);
    ConversationEvent event;
    event.step = ConversationStep::drop;
    event.entry = plan.entry;
    event.conversation = image.conversation;
    event.tokens = image.end();
    event.bytes = held - std::min(held, cache_.bytes());
    event.removal = Removal::invalid;
    event.label = image.label;
    say(std::move(event), events);
}

void ParkedConversations::live_is(const LiveFacts& facts, ConversationEvents& events) {
    if (!enabled()) return;
    LiveHolding live;
    live.outline = outline_of(session_->ids(), facts.identity.steering, facts.marks,
                              session_->checkpoints().marks());
    live.clean_pages = session_->clean_pages();
    apply(cache_.set_live(live), events);
}

void ParkedConversations::forget_live() noexcept {
    incoming_ = nullptr;
    back_ = {};
    cache_.forget_live();
    session_->store().sweep([this](HostBlobId id) { return cache_.names(id); });
}

void ParkedConversations::report(CacheFigures& figures) {
    pressure_.request_ran();
    const CacheCounters& counters = cache_.counters();
    figures.enabled = enabled();
    figures.parked = std::ssize(cache_.entries());
    figures.bytes = cache_.bytes();
    figures.retained_bytes = cache_.retained_bytes();
    figures.counters = counters;
    figures.available_bytes = last_reading_.available_bytes;
}

// --- commands ---

bool ParkedConversations::unpin(EntryId entry, ConversationEvents& events) {
    const auto change = cache_.unpin(entry);
    if (change) apply(*change, events);
    return change.has_value();
}

bool ParkedConversations::drop(EntryId entry, ConversationEvents& events) {
    const auto change = cache_.drop(entry);
    if (change) apply(*change, events);
    return change.has_value();
}

void ParkedConversations::clear(ConversationEvents& events) {
    apply(cache_.clear(), events);
}

}  // namespace strata
