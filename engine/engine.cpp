// The story of one request, in order: check, plan, resume, read, write, settle. It may only call:
// the plan is core/prompt_plan's, bytes are state/'s, computing is the runner's, tokens are the
// sampler's.
#include "strata/engine.hpp"

#include <algorithm>
#include <new>
#include <string>
#include <string_view>
#include <utility>

#include "engine/next_token.hpp"
#include "engine/parked_conversations.hpp"
#include "engine/request_check.hpp"
#include "engine/request_run.hpp"
#include "engine/units.hpp"
#include "strata/backend/device_fault.hpp"
#include "strata/core/invariant.hpp"
#include "strata/model/memory_advice.hpp"
#include "strata/state/live_session.hpp"
#include "strata/state/state_hash.hpp"

namespace strata {

namespace {

// A first pass of a few tokens brings the weights into memory; the second one is measured.
constexpr std::int64_t kWarmUpTokens = 8;
constexpr std::int64_t kMeasuredTokens = 64;
// After this long without a request, what only ended requests needed is given back: sooner would
// take it from the next turn of a person who types fast.
constexpr std::chrono::milliseconds kIdleAfterMs{2000};

// A read is to show a sign of life every 5 s (PROTOCOL.md). Half of that: a layer may take the
// rest.
constexpr std::chrono::milliseconds kHeartbeatMs{2500};
constexpr std::chrono::milliseconds kLookMs{50};  // between two looks at the lines that came
// A stopped chunk that is still running after four times the usual length is given up. A hybrid
// pays for it with all it has read since its last checkpoint, so a shorter one is waited for.
constexpr std::chrono::milliseconds kStopPatienceMs{1000};

class OneConversationEngine : public Engine {
  public:
    OneConversationEngine(std::unique_ptr<Runner> runner, const EngineLimits& limits,
                          std::shared_ptr<StopBoard> board, HostSegments& segments, Clock clock);

    Status<> open_session(const HostMemory& memory);

    void cancel(std::optional<std::uint64_t> id) override { board_->stop(id); }
    Result<Outcome, RequestRefusal> generate(const GenerateRequest& request,
                                             EngineEvents& events) override;
    std::optional<std::chrono::milliseconds> idle_wait() const override;
    void idle_step(ConversationEvents& events) override;
    const ConversationCache& conversations() const override { return parked_->books(); }
    bool moving() const override { return stage_ == Stage::moving; }
    bool pin(EntryId entry) override { return parked_->pin(entry); }
    bool unpin(EntryId entry, ConversationEvents& events) override {
        return parked_->unpin(entry, events);
    }
    bool drop(EntryId entry, ConversationEvents& events) override {
        return parked_->drop(entry, events);
    }
    void clear(ConversationEvents& events) override { parked_->clear(events); }
    void check_memory(PressureWhere where, ConversationEvents& events) override;
    std::uint64_t parking_bytes() const override { return store_.filling_bytes(); }
    void leave_device() override { session_->forget_kept(); }
    const EngineLimits& limits() const override { return limits_; }
    Runner& runner() override { return *runner_; }

    void measure_chunks();

  private:
    enum class Stage : std::uint8_t { idle, moving, answering };

    Result<Outcome, RequestRefusal> tell(Run& run);
    Result<Outcome, RequestRefusal> tell_or_forget(Run& run);
    PromptPlan plan(const Run& run) const;
    void choose(Run& run);
    bool is_good(Run& run);
    Result<bool> read_on(Run& run);
    Status<> resume(Run& run);
    Status<> bring_back(Run& run);
    void lose_live(Run& run);
    void arrive(Run& run);
    void name_live(const Run& run);
    void show_life(Run& run);
    bool read_prompt(Run& run);
    bool read_chunk(Run& run, Position end);
    Result<PassEnd> read_watched(Run& run, std::span<const TokenId> ids, const LastRow& wanted);
    bool look_up(Run& run);
    void tell_progress(Run& run, TimePoint now);
    void write_answer(Run& run);
    bool read_token(Run& run, TokenId id);
    std::string no_pages(const Refusal& refusal, Position rows) const;
    void keep_checkpoint(CheckpointKind kind);
    void end_with_error(Run& run, std::string fault);
    void settle(Run& run);
    bool ends_answer(const GenerateRequest& request, TokenId id) const;

    std::unique_ptr<Runner> runner_;
    BlobStore store_;
    std::unique_ptr<LiveSession> session_;
    std::unique_ptr<ParkedConversations> parked_;
    EngineLimits limits_;
    Clock clock_;
    TurnWords words_;
    std::shared_ptr<StopBoard> board_;
    NextToken next_;
    std::int64_t chunk_tokens_;
    Run* reading_ = nullptr;  // while a chunk of it is being computed

    LiveFacts live_;         // of the live conversation, besides its bytes
    bool one_shot_ = false;  // all that is live was read for a request with ckpt=0
    Stage stage_ = Stage::idle;
    std::uint64_t conversations_ = 0;  // numbers given so far
    TimePoint rested_{};               // when the last request ended
};

OneConversationEngine::OneConversationEngine(std::unique_ptr<Runner> runner,
                                             const EngineLimits& limits,
                                             std::shared_ptr<StopBoard> board,
                                             HostSegments& segments, Clock clock)
    : runner_(std::move(runner)),
      store_(segments, runner_->device()),
      limits_(limits),
      clock_(std::move(clock)),
      words_{limits.turn_open >= 0 ? limits.turn_open : runner_->vocabulary().turn_open,
             runner_->vocabulary().system_word},
      board_(std::move(board)),
      next_(*runner_) {
    limits_.chunks.tokens_max =
        std::min({limits.chunks.tokens_max, runner_->chunk_tokens_max(), limits.context_tokens});
    chunk_tokens_ = limits_.chunks.tokens_max;
    runner_->watch([this] { return reading_ == nullptr || look_up(*reading_); });
}

Status<> OneConversationEngine::open_session(const HostMemory& memory) {
    auto session = LiveSession::open(*runner_, store_);
    if (!session) return session.failure();
    session_ = std::move(session).value();
    parked_ = std::make_unique<ParkedConversations>(limits_.cache, memory, *session_, clock_);
    rested_ = clock_();
    return Done{};
}

void OneConversationEngine::measure_chunks() {
    if (limits_.chunks.time_max_ms <= 0) return;
    for (const std::int64_t wanted : {kWarmUpTokens, kMeasuredTokens}) {
        const std::int64_t tokens = std::min(wanted, limits_.chunks.tokens_max);
        const TokenIds ids(static_cast<std::size_t>(tokens), 0);
        session_->reset();
        const TimePoint began = clock_();
        // A failure here is not told: the first request meets the same one, and has somebody to
        // tell.
        if (!session_->reserve(tokens).ok() || !session_->read(ids, next_.wanted({}, {}, ids)).ok())
            break;
        const double ms = ms_between(began, clock_());
        chunk_tokens_ = first_chunk_tokens(tokens, ms, limits_.chunks);
        if (ms > limits_.chunks.time_max_ms) break;  // a longer pass would tell nothing else
    }
    session_->reset();
}

Result<Outcome, RequestRefusal> OneConversationEngine::generate(const GenerateRequest& request,
                                                                EngineEvents& events) {
    const BoardPlace place(*board_, request.id);
    Run run{request, events, place.flag, clock_()};
    stage_ = Stage::answering;
    auto outcome = tell_or_forget(run);
    stage_ = Stage::idle;
    rested_ = clock_();
    return outcome;
}

Result<Outcome, RequestRefusal> OneConversationEngine::tell_or_forget(Run& run) {
    try {
        return tell(run);
    } catch (const DeviceFault& fault) {
        return Failure{RequestRefusal{RefusalCode::device_lost, fault.what()}};
    } catch (const std::bad_alloc&) {
        // Somewhere between two whole steps: what the session holds cannot be told any more.
        session_->reset();
        parked_->forget_live();
        return Failure{RequestRefusal{RefusalCode::out_of_memory,
                                      "no memory to answer a prompt of " +
                                          std::to_string(run.request.prompt.size()) + " tokens"}};
    }
}

Result<Outcome, RequestRefusal> OneConversationEngine::tell(Run& run) {
    const GenerateRequest& request = run.request;
    if (auto refusal =
            check_request(request, runner_->geometry().vocabulary, limits_.context_tokens)) {
        return Failure{*std::move(refusal)};
    }
    const auto steering = find_steering(request.identity.steering, runner_->steering_modes());
    if (!steering) return steering.failure();
    runner_->steer(*steering);
    if (*steering) run.steering = runner_->steering_modes()[**steering].content;
    run.outcome.prompt_tokens = std::ssize(request.prompt);
    run.outcome.queue_ms =
        request.received == TimePoint{} ? 0 : ms_between(request.received, run.began);
    if (run.stopped()) {
        run.outcome.finish = FinishReason::cancel;
        return std::move(run.outcome);
    }
    run.marks = mark_prompt(request.prompt, request.root, words_);
    choose(run);
    run.outcome.planned = true;
    if (auto pages = session_->reserve(std::ssize(request.prompt)); !pages) {
        return Failure{RequestRefusal{RefusalCode::out_of_memory,
                                      no_pages(pages.error(), std::ssize(request.prompt))}};
    }
    const auto whole = read_on(run);
    if (!whole) {
        return Failure{RequestRefusal{RefusalCode::restore_failed, whole.error().text}};
    }
    if (*whole) write_answer(run);
    settle(run);
    return std::move(run.outcome);
}

// From what the plan says, or the next plan, to the prompt's end; false as read_prompt().
Result<bool> OneConversationEngine::read_on(Run& run) {
    while (true) {
        run.lost = false;
        if (auto resumed = resume(run); !resumed) return resumed.failure();
        const bool whole = !run.lost && read_prompt(run);
        arrive(run);
        if (!run.lost) return whole;
        run.note_spoilt();
        choose(run);
    }
}

PromptPlan OneConversationEngine::plan(const Run& run) const {
    const PromptView prompt{run.request.prompt, run.marks, run.request.identity};
    if (limits_.checkpoints.kept == 0) return plan_prompt(prompt, std::nullopt);
    LiveView live{session_->ids(), session_->checkpoints().marks(), live_.marks, live_.identity,
                  !runner_->geometry().recurrent()};
    live.one_shot = one_shot_ && session_->frontier() > 0;
    return plan_prompt(prompt, live, parked_->view(), run.spoilt);
}

// The plan, after what is needed for it is known to be there and good.
void OneConversationEngine::choose(Run& run) {
    run.outcome.plan = plan(run);
    parked_->check(PressureWhere::request, run.outcome.plan.entry, false, run.events);
    while (!is_good(run)) run.outcome.plan = plan(run);
}

// False: what the plan goes on from is not what it was, and is gone.
bool OneConversationEngine::is_good(Run& run) {
    const PromptPlan& plan = run.outcome.plan;
    if (plan.entry) return parked_->validated(plan, run.steering, run.events);
    const bool good = session_->can_rewind(plan.reused);
    if (!good) run.note_spoilt();
    return good;
}

Status<> OneConversationEngine::resume(Run& run) {
    const PromptPlan& plan = run.outcome.plan;
    // The state in which the conversation rested is about to move on: an edit of the message that
    // moves it would otherwise have to read the whole last answer again.
    if (plan.source == ResumeSource::live && runner_->geometry().recurrent()) {
        keep_checkpoint(CheckpointKind::tail);
    }
    run.told = run.looked = run.began;
    stage_ = Stage::moving;
    parked_->set_aside(plan, live_, conversations_ + 1, run.outcome.cache, run.events,
                       [&] { show_life(run); });
    if (plan.outgoing == OutgoingFate::park_if_free) ++conversations_;
    if (plan.entry) {
        if (auto back = bring_back(run); !back || run.lost) return back;
    } else if (session_->rewind(plan.reused)) {
        if (plan.reused == 0) session_->set_steering(run.steering);
    } else {
        run.lost = true;
        return Done{};
    }
    run.reading_began = clock_();
    if (!session_->arriving()) arrive(run);
    return Done{};
}

Status<> OneConversationEngine::bring_back(Run& run) {
    auto facts = parked_->bring_back(run.outcome.plan, run.steering, run.outcome.cache, run.events,
                                     [&] { show_life(run); });
    if (!facts) return facts.failure();
    if (!*facts) {
        lose_live(run);
        return Done{};
    }
    live_ = **std::move(facts);
    PromptPlan& plan = run.outcome.plan;
    if (plan.takes && run.outcome.cache.restored_bytes == 0) plan.source = ResumeSource::device;
    return Done{};
}

// There was nothing whole to bring back, and nobody is live.
void OneConversationEngine::lose_live(Run& run) {
    run.lost = true;
    live_ = LiveFacts{};
    one_shot_ = false;
    parked_->live_is(live_, run.events);
}

// Who goes on is there to its last byte, at the latest behind the first pass.
void OneConversationEngine::arrive(Run& run) {
    if (stage_ != Stage::moving || run.lost) return;
    const auto there =
        parked_->arrived(run.outcome.plan, run.outcome.cache, run.events, [&] { show_life(run); });
    if (!there) return lose_live(run);
    run.told = run.reading_began = std::max(run.reading_began, *there);
    name_live(run);
    parked_->live_is(live_, run.events);
    stage_ = Stage::answering;
    run.events.resumed(run.outcome.plan, live_.conversation);
}

// Who is live from here on. A conversation keeps its number while it continues and when it comes
// back; whoever shares no more than a root, or leaves a parked one where it is, has a new one.
void OneConversationEngine::name_live(const Run& run) {
    const PromptPlan& plan = run.outcome.plan;
    const bool same = !plan.switched || (plan.restored && plan.takes);
    if (!same) {
        live_ = LiveFacts{};
        live_.conversation = ++conversations_;
    }
    // A one-shot leaves the conversation that it was asked in as it was; one that came back for it
    // is a chat, whatever was live before.
    if (same && !run.request.keep) {
        one_shot_ = one_shot_ && !plan.switched;
        return;
    }
    live_.marks = run.marks;
    live_.identity = run.request.identity;
    live_.label = run.request.label;
    one_shot_ = !run.request.keep;
}

// True when the whole prompt is read; false when the request ended (outcome.finish says how).
bool OneConversationEngine::read_prompt(Run& run) {
    const Position end = std::ssize(run.request.prompt);
    const CheckpointWish wish{run.marks, session_->frontier(), end, run.request.pin,
                              run.request.keep};
    const auto cuts = checkpoints_to_write(wish, limits_.checkpoints);
    auto cut = cuts.begin();
    Position last_interval = session_->frontier();
    while (true) {
        const Position here = session_->frontier();
        const bool is_cut = cut != cuts.end() && cut->position == here;
        const bool is_interval = interval_due(last_interval, here, wish, limits_.checkpoints);
        if (is_cut || is_interval) arrive(run);
        if (run.lost) return false;
        if (stage_ == Stage::answering) {
            parked_->check_if_due(PressureWhere::request, run.events);
        }
        if (is_cut) {
            keep_checkpoint(cut->kind);
            ++cut;
        }
        if (is_interval) {
            keep_checkpoint(CheckpointKind::interval);
            last_interval = here;
        }
        if (here == end) return true;
        if (run.stopped()) {
            run.outcome.finish = FinishReason::cancel;
            run.outcome.prompt_ms = ms_between(run.reading_began, clock_());
            return false;
        }
        const Position next_cut = cut == cuts.end() ? end : cut->position;
        if (!read_chunk(run, chunk_end(here, chunk_tokens_, next_cut))) return false;
    }
}

bool OneConversationEngine::read_chunk(Run& run, Position end) {
    const std::int64_t tokens = end - session_->frontier();
    const auto ids = std::span(run.request.prompt).first(static_cast<std::size_t>(end));
    const bool last = end == std::ssize(run.request.prompt);
    const bool wants = last && (run.request.max_new > 0 || run.request.hash);
    const bool waited = stage_ == Stage::moving;  // for bytes, so its time tells nothing
    const auto fresh = ids.last(static_cast<std::size_t>(tokens));
    const auto read = read_watched(
        run, fresh, wants ? next_.wanted(run.request, session_->ids(), fresh) : LastRow{});
    arrive(run);
    if (run.lost) return false;
    if (!read || *read == PassEnd::abandoned) {
        run.outcome.prompt_ms = ms_between(run.reading_began, clock_());
        if (!read) {
            end_with_error(run, read.error().text);
        } else {
            session_->cut_back();
            run.outcome.finish = FinishReason::cancel;
        }
        return false;
    }
    session_->device().synchronize();
    const TimePoint now = clock_();
    if (!waited) {
        chunk_tokens_ = next_chunk_tokens(chunk_tokens_, tokens, ms_between(run.chunk_began, now),
                                          limits_.chunks);
    }
    run.outcome.prompt_read += tokens;
    tell_progress(run, now);
    run.events.step();
    return true;
}

Result<PassEnd> OneConversationEngine::read_watched(Run& run, std::span<const TokenId> ids,
                                                    const LastRow& wanted) {
    run.chunk_began = run.looked = clock_();
    reading_ = &run;
    auto read = session_->read(ids, wanted);
    reading_ = nullptr;
    return read;
}

// In the middle of a chunk. False: it is not worth going on.
bool OneConversationEngine::look_up(Run& run) {
    show_life(run);
    return !run.stopped() || clock_() - run.chunk_began < kStopPatienceMs;
}

// Now and then: signs of life.
void OneConversationEngine::show_life(Run& run) {
    const TimePoint now = clock_();
    if (now - run.looked < kLookMs) return;
    run.looked = now;
    run.events.step();
    if (now - run.told >= kHeartbeatMs) tell_progress(run, now);
}

// Of the chunks that are whole; of none while a conversation moves.
void OneConversationEngine::tell_progress(Run& run, TimePoint now) {
    run.told = now;
    const double ms = ms_between(run.reading_began, now);
    const auto read = static_cast<double>(run.outcome.prompt_read);
    run.events.progress(stage_ == Stage::moving ? 0 : session_->frontier(),
                        ms_between(run.began, now), read > 0 && ms > 0 ? read * 1000 / ms : 0);
}

void OneConversationEngine::write_answer(Run& run) {
    Outcome& outcome = run.outcome;
    const GenerateRequest& request = run.request;
    if (request.hash) outcome.logits_sha256 = logits_sha256(next_.logits());
    std::optional<TimePoint> first_token;
    outcome.finish = FinishReason::length;
    while (outcome.generated < request.max_new) {
        if (run.stopped()) {
            outcome.finish = FinishReason::cancel;
            break;
        }
        const auto counter = static_cast<std::uint64_t>(session_->frontier());
        const auto token = next_.choose(request, session_->ids(), counter);
        if (!first_token) first_token = clock_();
        if (!token) {
            session_->reset();
            end_with_error(
                run, "the model's logits are not finite at position " + std::to_string(counter));
            break;
        }
        if (ends_answer(request, *token)) {
            outcome.finish = FinishReason::stop;
            outcome.stop_id = token;
            break;
        }
        run.events.token(*token, next_.report(request, *token));
        if (++outcome.generated == request.max_new) break;
        run.events.step();
        parked_->check_if_due(PressureWhere::window, run.events);
        if (!read_token(run, *token)) break;
    }
    const TimePoint ended = clock_();
    outcome.prompt_ms = ms_between(run.reading_began, first_token.value_or(ended));
    outcome.decode_ms = first_token ? ms_between(*first_token, ended) : 0;
}

bool OneConversationEngine::ends_answer(const GenerateRequest& request, TokenId id) const {
    const auto among = [id](std::span<const TokenId> ids) {
        return std::find(ids.begin(), ids.end(), id) != ids.end();
    };
    return among(request.stop_ids) || (!request.ignore_eos && among(runner_->vocabulary().end_ids));
}

// Why a conversation cannot grow to `rows`: what is needed and free, and what would fit.
std::string OneConversationEngine::no_pages(const Refusal& refusal, Position rows) const {
    const std::uint64_t free_bytes = session_->device().facts().free_bytes;
    const auto need = growth_need(runner_->geometry(), session_->pages(), rows, free_bytes);
    return memory_advice(need).value_or(refusal.text);
}

bool OneConversationEngine::read_token(Run& run, TokenId id) {
    if (auto pages = session_->reserve(session_->frontier() + 1); !pages) {
        end_with_error(run, no_pages(pages.error(), session_->frontier() + 1));
        return false;
    }
    const std::span ids(&id, 1);
    const auto read = session_->read(ids, next_.wanted(run.request, session_->ids(), ids));
    if (!read) end_with_error(run, read.error().text);
    return read.ok();
}

// Makes room by the rule, and keeps the state at the frontier. Without memory for it the
// conversation goes on without: a checkpoint saves time and decides nothing.
void OneConversationEngine::keep_checkpoint(CheckpointKind kind) {
    const auto held = session_->checkpoints().held();
    const bool is_tail = kind == CheckpointKind::tail;
    const bool there = std::any_of(held.begin(), held.end(), [this](const HeldCheckpoint& each) {
        return each.mark.kind != CheckpointKind::tail && each.mark.position == session_->frontier();
    });
    if (!is_tail && !there) {
        const CheckpointRoom room = room_for_checkpoint(held, limits_.checkpoints);
        if (!room.stored) return;
        if (room.victim) session_->drop_checkpoint(*room.victim);
    }
    (void)session_->keep_checkpoint(kind, live_.conversation);
}

void OneConversationEngine::end_with_error(Run& run, std::string fault) {
    run.outcome.finish = FinishReason::error;
    run.outcome.fault = std::move(fault);
    if (!session_->valid()) session_->reset();
}

// The request is over: hashes of what it leaves, then a one-shot gives up what only it has read.
void OneConversationEngine::settle(Run& run) {
    if (run.request.hash && run.outcome.finish != FinishReason::error) {
        run.outcome.state_sha256 = state_sha256(*session_);
    }
    if (!run.request.keep) {
        const bool anywhere = !runner_->geometry().recurrent();
        const Position reused =
            anywhere ? std::min(run.outcome.plan.reused, session_->frontier()) : 0;
        while (!session_->rewind(std::max(reused, session_->checkpoints().deepest()))) {
            // That one was not what it was: the next.
        }
    }
    run.outcome.checkpoints = session_->checkpoints().counted();
    run.outcome.conversation = live_.conversation;
    parked_->live_is(live_, run.events);
    parked_->report(run.outcome.cache);
}

std::optional<std::chrono::milliseconds> OneConversationEngine::idle_wait() const {
    std::optional<TimePoint> due = parked_->next_idle_check();
    if (session_->has_spare_pages()) {
        const TimePoint rest = rested_ + kIdleAfterMs;
        due = due ? std::min(*due, rest) : rest;
    }
    if (!due) return std::nullopt;
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*due - clock_());
    return std::max(left, std::chrono::milliseconds(0));
}

void OneConversationEngine::idle_step(ConversationEvents& events) {
    const TimePoint now = clock_();
    if (now >= rested_ + kIdleAfterMs) session_->release_spare_pages();
    const auto due = parked_->next_idle_check();
    if (due && now >= *due) parked_->check(PressureWhere::idle, std::nullopt, false, events);
}

void OneConversationEngine::check_memory(PressureWhere where, ConversationEvents& events) {
    parked_->check(where, std::nullopt, stage_ != Stage::idle, events);
}

}  // namespace

Result<std::unique_ptr<Engine>> make_engine(std::unique_ptr<Runner> runner,
                                            const EngineLimits& limits,
                                            std::shared_ptr<StopBoard> board, EngineHost host,
                                            Clock clock) {
    const std::int64_t vocabulary = runner->geometry().vocabulary;
    if (limits.turn_open >= vocabulary) {
        return refuse("turn-token is " + std::to_string(limits.turn_open) +
                      ", allowed are ids of the vocabulary, 0 to " +
                      std::to_string(vocabulary - 1));
    }
    auto engine = std::make_unique<OneConversationEngine>(
        std::move(runner), limits, std::move(board), *host.segments, std::move(clock));
    if (auto opened = engine->open_session(host.memory); !opened) return opened.failure();
    engine->measure_chunks();
    return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace strata
