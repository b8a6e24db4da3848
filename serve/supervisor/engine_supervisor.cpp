// The life of an epoch: start, end, report, what follows; and the orderly end of all.
#include "serve/supervisor/engine_supervisor.hpp"

#include <utility>

#include <signal.h>

#include "protocol/line_reader.hpp"
#include "protocol/quit_command.hpp"
#include "serve/supervisor/defences.hpp"
#include "serve/supervisor/oom_evidence.hpp"

namespace strata::serve {

namespace {

// A restart that comes at once still loads the model.
constexpr std::chrono::seconds kRetryAfterMin{1};

std::chrono::seconds whole_seconds(Milliseconds span) {
    return std::max(std::chrono::ceil<std::chrono::seconds>(span), kRetryAfterMin);
}

std::string seconds_text(Milliseconds span) {
    const auto tenths = span.count() / 100;
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " s";
}

}  // namespace

EngineSupervisor::EngineSupervisor(SupervisorConfig config, ProcessLauncher& launcher,
                                   TimeSource& time, SupervisorLog& log,
                                   std::function<double()> dice, VramSource* vram)
    : config_(std::move(config)),
      launcher_(launcher),
      time_(time),
      log_(log),
      dice_(std::move(dice)),
      desk_(config_.desk, time,
            [this](std::string line) {
                if (running()) now_.process->write_line(std::move(line));
                set_look();
            }),
      cache_desk_(time,
                  [this](std::string line) {
                      if (running()) now_.process->write_line(std::move(line));
                  }),
      preparation_(config_.preparation, launcher, time, log, vram,
                   [this](std::optional<LoadRefusal> refusal) { take_preparation(refusal); }),
      look_alarm_(time.make_alarm()),
      end_alarm_(time.make_alarm()),
      restart_alarm_(time.make_alarm()),
      desk_alarm_(time.make_alarm()),
      idle_alarm_(time.make_alarm()) {}

EngineSupervisor::~EngineSupervisor() = default;

void EngineSupervisor::spawn() {
    ++epoch_;
    now_ = Epoch{};
    tail_.clear();
    now_.oom_kills_before = oom_kill_count();
    now_.reader = std::make_unique<Reader>(*this, epoch_);
    Result<std::unique_ptr<EngineProcess>, LaunchRefusal> launched =
        launcher_.launch(config_.command, *now_.reader);
    if (!launched.ok()) {
        const LaunchRefusal& why = launched.error();
        latch(why.lasting ? EndCause::not_runnable : EndCause::exec_failed, why.text);
        now_.exited = true;
        end_epoch();
        return;
    }
    now_.process = std::move(*launched);
    now_.load_sign = time_.now();
    log_.event("engine " + std::to_string(epoch_) + " started, process " +
               std::to_string(now_.process->pid()));
    set_look();
}

EnginePhase EngineSupervisor::phase() const {
    if (ends_as_told(life_)) return EnginePhase::shutdown;
    if (now_.process == nullptr) return EnginePhase::spawn;
    if (!now_.ready_at) return EnginePhase::load;
    if (!desk_.busy()) return EnginePhase::idle;
    return desk_.reading() ? EnginePhase::prefill : EnginePhase::decode;
}

void EngineSupervisor::latch(EndCause cause, std::string text) {
    if (now_.cause != EndCause::none) return;
    now_.cause = cause;
    now_.cause_text = std::move(text);
}

void EngineSupervisor::condemn(EndCause cause, std::string text) {
    if (!running() || now_.condemned) return;
    now_.condemned = true;
    latch(cause, std::move(text));
    desk_.close();
    set_desk_deadline();
    step(LifeEvent::dying);
    log_.event("engine " + std::to_string(epoch_) + " is ended by this server: " + now_.cause_text);
    now_.process->send_signal(SIGABRT);
    now_.process->send_signal(SIGCONT);  // a stopped process takes no signal but SIGKILL
    end_alarm_->set(time_.now() + config_.abort_grace, [this] { kill_now(); });
}

void EngineSupervisor::expect_end(EndCause cause, std::string text) {
    if (!running() || now_.condemned || ends_as_told(life_)) return;
    desk_.close();
    set_desk_deadline();
    end_alarm_->set(time_.now() + config_.end_grace,
                    [this, cause, text = std::move(text)] { condemn(cause, text); });
}

void EngineSupervisor::kill_now() {
    if (!running()) return;
    if (defended(Defence::escalation)) now_.process->kill_group();
    end_alarm_->set(time_.now() + config_.abort_grace, [this] {
        log_.event("process " + std::to_string(now_.process->pid()) +
                   " does not end although it was killed; no engine is started before it has");
        fail_active("the engine hangs in the kernel", "it cannot be restarted", kRetryAfterMin);
    });
}

void EngineSupervisor::take_stream_fault(StreamFault fault) {
    switch (fault) {
        case StreamFault::overlong_line:
            condemn(EndCause::overlong_line, "over " +
                                                 std::to_string(protocol::kEventLineBytesMax) +
                                                 " bytes without an end of line");
            return;
        case StreamFault::stdin_overflow:
            condemn(EndCause::stdin_overflow, "its commands wait unread");
            return;
        case StreamFault::stdin_closed:
            if (defended(Defence::stream_end)) expect_end(EndCause::stdin_closed, "stdin");
            return;
        case StreamFault::stdout_closed:
            if (defended(Defence::stream_end)) expect_end(EndCause::stdout_closed, "stdout");
            return;
    }
}

void EngineSupervisor::take_exit(const ExitStatus& status) {
    now_.exited = true;
    now_.status = status;
    desk_.close();
    set_desk_deadline();
    look_alarm_->clear();
    end_alarm_->clear();
    step(LifeEvent::dying);
}

void EngineSupervisor::take_drained() {
    end_epoch();
}

void EngineSupervisor::end_epoch() {
    look_alarm_->clear();
    end_alarm_->clear();
    EngineExit end;
    end.status = now_.status;
    end.phase = phase();
    end.request_running = desk_.busy();
    if (defended(Defence::cause_latch)) {
        end.cause = now_.cause;
        end.cause_text = now_.cause_text;
    }
    end.last_lines = tail_.lines();
    end.oom_kills = oom_kill_count() - now_.oom_kills_before;
    const ExitReport report = report_exit(end);
    dispose_process();
    if (report.unexpected) {
        ++unexpected_ends_;
        note_failure(report.text);
    }
    log_.event(report.text);
    if (ends_as_told(life_)) {
        const bool leaving = life_ == LifeState::leaving;
        fail_active(report.text,
                    leaving ? "this server is shutting down" : "the model was unloaded",
                    kRetryAfterMin);
        step(LifeEvent::gone);
        return;
    }
    plan_next(report, end.phase);
}

void EngineSupervisor::plan_next(const ExitReport& report, EnginePhase phase) {
    std::optional<Milliseconds> ready_for;
    if (now_.ready_at) {
        ready_for = std::chrono::duration_cast<Milliseconds>(time_.now() - *now_.ready_at);
    }
    RestartDecision decision =
        decide_restart(record_, {phase, report.retryable, ready_for}, config_.restart, dice_());
    if (std::exchange(restart_at_once_, false)) decision.wait = Milliseconds(0);
    record_ = decision.record;
    restart_wait_ = decision.wait;
    if (decision.again) {
        step(LifeEvent::gone);
        log_.event("the next engine starts in " + seconds_text(decision.wait));
        fail_active(report.text, "it restarts by itself, send the request again",
                    whole_seconds(decision.wait));
        return;
    }
    if (report.retryable) {
        note_failure(
            std::to_string(record_.load_failures) +
            " starts in a row failed before the engine was ready; the last: " + report.text);
    }
    log_.event("FAILED, no more starts until a retry is asked for: " + failure_);
    giving_up_ = {FailureKind::engine_failed, "", failure_, {}};
    step(LifeEvent::gone_for_good);
    fail_active(report.text, "it is not started again before somebody asks for it", {});
}

void EngineSupervisor::fail_active(const std::string& why, const std::string& what_next,
                                   std::chrono::seconds retry_after) {
    const FailureKind kind =
        life_ == LifeState::leaving ? FailureKind::shutting_down : FailureKind::engine_died;
    desk_.engine_gone({kind, "", why + "; " + what_next, retry_after});
}

// The process is calling us: it goes when that call has returned. Its events object outlives it.
void EngineSupervisor::dispose_process() {
    cache_desk_.engine_gone();
    struct Gone {
        std::unique_ptr<Reader> reader;
        std::unique_ptr<EngineProcess> process;
    };
    auto gone = std::make_shared<Gone>();
    gone->reader = std::move(now_.reader);
    gone->process = std::move(now_.process);
    time_.post([gone] {});
}

void EngineSupervisor::shut_down(std::function<void()> stopped) {
    stopped_.push_back(std::move(stopped));
    desk_.refuse_all({FailureKind::shutting_down, "", "this server is shutting down", {}});
    step(LifeEvent::leave);
    if (life_ == LifeState::stopped) tell_stopped();
}

void EngineSupervisor::quit() {
    desk_.close();
    set_look();
    now_.process->write_line(protocol::format(protocol::QuitCommand{}));
    now_.process->close_stdin();
    // While it loads nobody reads commands.
    if (!now_.ready_at) now_.process->send_signal(SIGTERM);
    end_alarm_->set(time_.now() + config_.quit_grace, [this] {
        now_.process->send_signal(SIGTERM);
        now_.process->send_signal(SIGCONT);
        end_alarm_->set(time_.now() + config_.term_grace, [this] { kill_now(); });
    });
}

void EngineSupervisor::tell_stopped() {
    for (std::function<void()>& each : std::exchange(stopped_, {})) time_.post(std::move(each));
}

RequestId EngineSupervisor::submit(protocol::GenCommand command,
                                   std::shared_ptr<RequestListener> listener) {
    const RequestId id = desk_.submit(std::move(command), std::move(listener));
    want_engine();
    return id;
}

RequestId EngineSupervisor::submit_next(protocol::GenCommand command,
                                        std::shared_ptr<RequestListener> listener) {
    const RequestId id = desk_.submit_next(std::move(command), std::move(listener));
    want_engine();
    return id;
}

void EngineSupervisor::cancel(RequestId id) {
    desk_.cancel(id);
    set_desk_deadline();
    note_idle();
}

void EngineSupervisor::observe(EngineObserver* observer) {
    observer_ = observer;
    desk_.observe(observer);
}

void EngineSupervisor::cache(const protocol::CacheCommand& command, CacheListener answer) {
    const bool ready = life_ == LifeState::ready && running() && !now_.condemned;
    if (ready && now_.can_list) {
        cache_desk_.ask(command, std::move(answer));
        return;
    }
    const CacheOutcome outcome = ready ? CacheOutcome::unsupported : CacheOutcome::no_engine;
    time_.post([answer = std::move(answer), outcome] { answer({outcome, {}, {}}); });
}

void EngineSupervisor::stop_writing(RequestId id) {
    desk_.stop_writing(id);
}

std::optional<std::chrono::seconds> EngineSupervisor::time_left() const {
    const TimePoint now = time_.now();
    if (next_start_) {
        return whole_seconds(std::chrono::duration_cast<Milliseconds>(*next_start_ - now));
    }
    if (life_ != LifeState::loading || !now_.load_began) return std::nullopt;
    const auto elapsed = std::chrono::duration_cast<Milliseconds>(now - *now_.load_began);
    return load_time_left(elapsed, now_.load_done, now_.load_total);
}

std::chrono::seconds EngineSupervisor::retry_after() const {
    return std::max(time_left().value_or(kRetryAfterMin), kRetryAfterMin);
}

void EngineSupervisor::set_desk_deadline() {
    const std::optional<TimePoint> when = desk_.next_deadline();
    // A request that began a load waits for it however long it takes: the watch over the load ends
    // one that stands still.
    const bool patient = on_demand_ && (life_ == LifeState::preparing ||
                                        life_ == LifeState::loading || ends_as_told(life_));
    if (!when || patient) {
        desk_alarm_->clear();
        return;
    }
    desk_alarm_->set(*when, [this] {
        desk_.expire(retry_after());
        set_desk_deadline();
    });
}

EngineView EngineSupervisor::view() const {
    EngineView view;
    view.state = shown_state();
    view.epoch = epoch_;
    view.failure = failure_;
    view.last_failure = last_failure_;
    view.last_failure_at = last_failure_at_;
    view.engine_starts = epoch_;
    view.foreign_lines = foreign_lines_;
    view.foreign_dones = foreign_dones_;
    view.unexpected_ends = unexpected_ends_;
    view.last_lines = tail_.lines();
    view.dropped_log_lines = tail_.dropped();
    desk_.fill(view);
    if (now_.process != nullptr) {
        view.engine_pid = now_.process->pid();
    }
    // What an engine that is on its way out has loaded says nothing of the next one's load.
    if (now_.process != nullptr && !ends_as_told(life_)) {
        if (now_.load_total > 0) {
            view.load_progress =
                static_cast<double>(now_.load_done) / static_cast<double>(now_.load_total);
        }
        if (now_.ready_at) view.load_progress = 1.0;
    }
    view.eta = time_left();
    view.on_demand = on_demand_;
    if (life_ == LifeState::unloaded) view.refusal_code = giving_up_.err_code;
    if (idle_since_ && config_.idle_unload > Milliseconds(0)) {
        const auto left = *idle_since_ + config_.idle_unload - time_.now();
        view.unload_in = std::chrono::ceil<std::chrono::seconds>(std::max(left, left.zero()));
    }
    if (life_ == LifeState::ready) {
        view.info = now_.info;
        view.max_context = now_.max_context;
    }
    return view;
}

}  // namespace strata::serve
