// The life of an epoch: start, end, report, next start; and the orderly end of all.
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
                                   std::function<double()> dice)
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
      look_alarm_(time.make_alarm()),
      end_alarm_(time.make_alarm()),
      restart_alarm_(time.make_alarm()),
      desk_alarm_(time.make_alarm()) {}

EngineSupervisor::~EngineSupervisor() = default;

void EngineSupervisor::start() {
    if (epoch_ == 0 && !shutting_) spawn();
}

bool EngineSupervisor::retry() {
    if (state_ != EngineState::failed) return false;
    record_ = {};
    desk_.expect_engine();
    spawn();
    return true;
}

void EngineSupervisor::spawn() {
    ++epoch_;
    now_ = Epoch{};
    tail_.clear();
    next_start_.reset();
    now_.oom_kills_before = oom_kill_count();
    now_.reader = std::make_unique<Reader>(*this, epoch_);
    state_ = epoch_ == 1 ? EngineState::starting : EngineState::restarting;
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
    state_ = EngineState::loading;
    log_.event("engine " + std::to_string(epoch_) + " started, process " +
               std::to_string(now_.process->pid()));
    set_look();
}

EnginePhase EngineSupervisor::phase() const {
    if (shutting_) return EnginePhase::shutdown;
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
    if (!shutting_) state_ = EngineState::restarting;
    log_.event("engine " + std::to_string(epoch_) + " is ended by this server: " + now_.cause_text);
    now_.process->send_signal(SIGABRT);
    now_.process->send_signal(SIGCONT);  // a stopped process takes no signal but SIGKILL
    end_alarm_->set(time_.now() + config_.abort_grace, [this] { kill_now(); });
}

void EngineSupervisor::expect_end(EndCause cause, std::string text) {
    if (!running() || now_.condemned || shutting_) return;
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
    if (!shutting_) state_ = EngineState::restarting;
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
    std::optional<Milliseconds> ready_for;
    if (now_.ready_at) {
        ready_for = std::chrono::duration_cast<Milliseconds>(time_.now() - *now_.ready_at);
    }
    dispose_process();
    if (report.unexpected) {
        ++unexpected_ends_;
        failure_ = report.text;
    }
    log_.event(report.text);
    plan_next(report, decide_restart(record_, {end.phase, report.retryable, ready_for},
                                     config_.restart, dice_()));
}

void EngineSupervisor::plan_next(const ExitReport& report, const RestartDecision& decision) {
    if (shutting_) {
        state_ = EngineState::stopped;
        fail_active(report.text, "this server is shutting down", kRetryAfterMin);
        tell_stopped();
        return;
    }
    record_ = decision.record;
    if (!decision.again) {
        state_ = EngineState::failed;
        if (report.retryable) {
            failure_ =
                std::to_string(record_.load_failures) +
                " starts in a row failed before the engine was ready; the last: " + report.text;
        }
        log_.event("FAILED, no more starts until a retry is asked for: " + failure_);
        desk_.refuse_all({FailureKind::engine_failed, "", failure_, {}});
        fail_active(report.text, "it is not started again before somebody asks for it", {});
        return;
    }
    state_ = EngineState::restarting;
    next_start_ = time_.now() + decision.wait;
    log_.event("the next engine starts in " + seconds_text(decision.wait));
    restart_alarm_->set(*next_start_, [this] { spawn(); });
    set_desk_deadline();
    fail_active(report.text, "it restarts by itself, send the request again",
                whole_seconds(decision.wait));
}

void EngineSupervisor::fail_active(const std::string& why, const std::string& what_next,
                                   std::chrono::seconds retry_after) {
    const FailureKind kind = shutting_ ? FailureKind::shutting_down : FailureKind::engine_died;
    desk_.engine_gone({kind, "", why + "; " + what_next, retry_after});
}

// The process is calling us: it goes when that call has returned. Its events object outlives it.
void EngineSupervisor::dispose_process() {
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
    restart_alarm_->clear();
    if (std::exchange(shutting_, true)) {
        kill_now();
        if (state_ == EngineState::stopped) tell_stopped();
        return;
    }
    next_start_.reset();
    desk_.refuse_all({FailureKind::shutting_down, "", "this server is shutting down", {}});
    set_look();
    if (now_.process == nullptr) {
        state_ = EngineState::stopped;
        tell_stopped();
        return;
    }
    if (now_.exited) return;
    if (now_.condemned) {
        kill_now();
        return;
    }
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
    set_desk_deadline();
    return id;
}

void EngineSupervisor::cancel(RequestId id) {
    desk_.cancel(id);
    set_desk_deadline();
}

void EngineSupervisor::stop_writing(RequestId id) {
    desk_.stop_writing(id);
}

std::optional<std::chrono::seconds> EngineSupervisor::time_left() const {
    const TimePoint now = time_.now();
    if (next_start_) {
        return whole_seconds(std::chrono::duration_cast<Milliseconds>(*next_start_ - now));
    }
    if (state_ != EngineState::loading || !now_.load_began) return std::nullopt;
    const auto elapsed = std::chrono::duration_cast<Milliseconds>(now - *now_.load_began);
    return load_time_left(elapsed, now_.load_done, now_.load_total);
}

std::chrono::seconds EngineSupervisor::retry_after() const {
    return std::max(time_left().value_or(kRetryAfterMin), kRetryAfterMin);
}

void EngineSupervisor::set_desk_deadline() {
    const std::optional<TimePoint> when = desk_.next_deadline();
    if (!when) {
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
    view.state = state_;
    view.epoch = epoch_;
    view.failure = failure_;
    view.engine_starts = epoch_;
    view.foreign_lines = foreign_lines_;
    view.unexpected_ends = unexpected_ends_;
    view.last_lines = tail_.lines();
    view.dropped_log_lines = tail_.dropped();
    desk_.fill(view);
    if (now_.process != nullptr) {
        view.engine_pid = now_.process->pid();
        if (now_.load_total > 0) {
            view.load_progress =
                static_cast<double>(now_.load_done) / static_cast<double>(now_.load_total);
        }
        if (now_.ready_at) view.load_progress = 1.0;
    }
    view.eta = time_left();
    if (state_ == EngineState::ready) {
        view.info = now_.info;
        view.max_context = now_.max_context;
    }
    return view;
}

}  // namespace strata::serve
