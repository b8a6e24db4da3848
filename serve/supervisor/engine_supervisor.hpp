// The supervisor: starts an engine, watches it, ends it when it hangs, starts the next one, and
// gives requests to it through the desk. Policy is in engine_life (which state follows), liveness,
// restart_policy and exit_report; processes and time come in as interfaces.
//
// One epoch (the number of engine starts):
//
//   spawn() -> loading -> [READY] ready -> [quit(), condemn() or by itself] -> on_exit ->
//   on_drained
//     -> end_epoch(): report, then what engine_life says: a start after a wait, FAILED, unloaded
//     ...
//
// Invariants:
// (1) at most one process exists, and none is started before the last one is reaped and drained;
// (2) lines are believed only from the process of the running epoch;
// (3) the first fatal cause of an epoch is the one that is reported;
// (4) an engine that we end gets SIGABRT, abort_grace later SIGKILL with its whole group;
// (5) life_ changes in step() alone.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/event.hpp"
#include "serve/supervisor/cache_desk.hpp"
#include "serve/supervisor/engine_client.hpp"
#include "serve/supervisor/engine_life.hpp"
#include "serve/supervisor/engine_process.hpp"
#include "serve/supervisor/exit_report.hpp"
#include "serve/supervisor/liveness.hpp"
#include "serve/supervisor/load_preparation.hpp"
#include "serve/supervisor/request_desk.hpp"
#include "serve/supervisor/restart_policy.hpp"
#include "serve/supervisor/stderr_tail.hpp"
#include "serve/supervisor/time_source.hpp"

namespace strata::serve {

struct SupervisorConfig {
    EngineCommand command;
    PreparationConfig preparation;
    Milliseconds idle_unload{0};  // without a request; 0 = the engine stays
    DeskLimits desk;
    LivenessLimits liveness;
    RestartLimits restart;
    // SIGABRT writes a core and unwinds nothing; what has not ended then will not.
    Milliseconds abort_grace = std::chrono::seconds(5);
    // An engine that closed a stream, or said that it dies, normally ends at once.
    Milliseconds end_grace = std::chrono::seconds(2);
    // A request ends within one prompt chunk; parking and saving may follow.
    Milliseconds quit_grace = std::chrono::seconds(5);
    Milliseconds term_grace = std::chrono::seconds(5);
};

// What people are told. Texts are printable and one line each; the calls must not block.
class SupervisorLog {
  public:
    virtual ~SupervisorLog() = default;
    virtual void event(std::string_view text) = 0;
    virtual void engine_line(std::string_view line) = 0;  // of the engine's stderr
};

class EngineSupervisor : public EngineClient {
  public:
    // What is passed by reference must outlive the supervisor, `vram` as well; null: no GPU is
    // known. `dice` gives numbers in [0, 1).
    EngineSupervisor(SupervisorConfig config, ProcessLauncher& launcher, TimeSource& time,
                     SupervisorLog& log, std::function<double()> dice, VramSource* vram = nullptr);
    EngineSupervisor(const EngineSupervisor&) = delete;
    EngineSupervisor& operator=(const EngineSupervisor&) = delete;
    // Kills and reaps what still runs. Not from inside a callback.
    ~EngineSupervisor() override;

    void start();
    // Instead of start(): the first request, or load(), starts the engine.
    void start_lazily();
    // Out of FAILED: as after start(). False in every other state.
    bool retry();
    // Ends the engine in order: QUIT and end of input, then SIGTERM, then SIGKILL; a second call
    // kills at once. What waits fails with shutting_down. `stopped` is called once, from the loop.
    void shut_down(std::function<void()> stopped);

    RequestId submit(protocol::GenCommand command,
                     std::shared_ptr<RequestListener> listener) override;
    RequestId submit_next(protocol::GenCommand command,
                          std::shared_ptr<RequestListener> listener) override;
    void cancel(RequestId id) override;
    void stop_writing(RequestId id) override;
    EngineView view() const override;
    void load(std::function<void()> when_settled) override;
    bool unload(std::function<void()> when_settled) override;
    void observe(EngineObserver* observer) override;
    void cache(const protocol::CacheCommand& command, CacheListener answer) override;

  private:
    // Tags what a process says with its epoch.
    class Reader : public ProcessEvents {
      public:
        Reader(EngineSupervisor& owner, std::uint64_t epoch) : owner_(owner), epoch_(epoch) {}
        void on_line(std::string_view line) override;
        void on_stderr_line(std::string_view line) override;
        void on_stream_fault(StreamFault fault) override;
        void on_exit(const ExitStatus& status) override;
        void on_drained() override;

      private:
        bool stale() const { return epoch_ != owner_.epoch_; }
        EngineSupervisor& owner_;
        std::uint64_t epoch_;
    };

    // What is true of one epoch only.
    struct Epoch {
        std::unique_ptr<Reader> reader;
        std::unique_ptr<EngineProcess> process;
        std::optional<ExitStatus> status;
        bool exited = false;
        bool condemned = false;
        EndCause cause = EndCause::none;
        std::string cause_text;
        std::optional<TimePoint> ready_at;
        std::optional<TimePoint> load_began;
        std::uint64_t load_done = 0;
        std::uint64_t load_total = 0;
        TimePoint load_sign{};
        TimePoint last_ping{};
        TimePoint last_pong{};
        std::uint64_t pings = 0;
        bool can_ping = false;
        bool can_list = false;  // CACHE works
        bool foreign_logged = false;
        std::int64_t listed = 0;  // rows of the CACHE answer that is coming in
        std::optional<protocol::InfoLine> info;
        std::int64_t max_context = 0;
        std::uint64_t oom_kills_before = 0;
    };

    // The one place where life_ changes.
    void step(LifeEvent event);
    void act(LifeAct what);
    void abandon();
    void give_up();
    void enter(LifeState state);
    void take_preparation(const std::optional<LoadRefusal>& refusal);
    void want_engine();
    void note_idle();
    void note_failure(const std::string& text);
    void go_idle();
    EngineState shown_state() const;

    void spawn();
    void admit();
    void quit();
    void take_line(std::string_view line);
    // Each says whether the line had a place; one without is foreign.
    bool take_event(const protocol::Event& event);
    bool take(const protocol::InfoLine& line);
    bool take(const protocol::LoadLine& line);
    bool take(const protocol::ReadyLine& line);
    bool take(const protocol::PongLine& line);
    bool take(const protocol::ErrLine& line);
    bool take(const protocol::ConvLine& line);
    bool take(const protocol::PressureLine& line);
    bool take(const protocol::CacheLine& line);
    void count_foreign(std::string_view line);
    void take_stream_fault(StreamFault fault);
    void take_exit(const ExitStatus& status);
    void take_drained();

    bool running() const { return now_.process != nullptr && !now_.exited; }
    EnginePhase phase() const;
    void latch(EndCause cause, std::string text);
    void condemn(EndCause cause, std::string text);
    void expect_end(EndCause cause, std::string text);
    template <class Line>
    bool gives_up(const Line& line) const;
    void kill_now();
    void end_epoch();
    void plan_next(const ExitReport& report, EnginePhase phase);
    void fail_active(const std::string& why, const std::string& what_next,
                     std::chrono::seconds retry_after);
    void dispose_process();
    void tell_stopped();

    SignsOfLife signs() const;
    void set_look();
    void look();
    void forgive(Milliseconds late);
    void set_desk_deadline();
    // Of the load or until the next start, as far as that is known.
    std::optional<std::chrono::seconds> time_left() const;
    std::chrono::seconds retry_after() const;

    SupervisorConfig config_;
    ProcessLauncher& launcher_;
    TimeSource& time_;
    SupervisorLog& log_;
    std::function<double()> dice_;
    RequestDesk desk_;
    CacheDesk cache_desk_;
    EngineObserver* observer_ = nullptr;

    LifeState life_ = LifeState::unloaded;
    LoadPreparation preparation_;
    bool begun_ = false;      // start() or start_lazily() came
    bool on_demand_ = false;  // the load under way is not the server's first
    EngineFailure giving_up_;
    std::optional<TimePoint> idle_since_;
    std::vector<std::function<void()>> when_settled_;
    std::uint64_t epoch_ = 0;
    Epoch now_;  // of epoch_
    RestartRecord record_;
    Milliseconds restart_wait_{0};
    bool restart_at_once_ = false;  // somebody asked for a load while the engine was ending
    std::optional<TimePoint> next_start_;
    std::string failure_;       // why there is no engine
    std::string last_failure_;  // the last that there was
    std::optional<TimePoint> last_failure_at_;
    StderrTail tail_;
    std::uint64_t foreign_lines_ = 0;
    std::uint64_t foreign_dones_ = 0;
    std::uint64_t unexpected_ends_ = 0;
    std::vector<std::function<void()>> stopped_;

    TimePoint look_planned_{};
    std::unique_ptr<Alarm> look_alarm_;
    std::unique_ptr<Alarm> end_alarm_;  // the next step of an end: abort, kill, give up
    std::unique_ptr<Alarm> restart_alarm_;
    std::unique_ptr<Alarm> desk_alarm_;
    std::unique_ptr<Alarm> idle_alarm_;
};

}  // namespace strata::serve
