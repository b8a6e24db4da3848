// What comes before each load: the before_load command runs to its end, then free GPU memory is
// looked at. Owns the command's process; knows nothing of the engine.
//
// Invariants: (1) `done` is called once for each begin() that is not abandoned; (2) after abandon()
// nothing of the command lives; (3) neither step waits for ever: each has its limit.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "serve/supervisor/engine_process.hpp"
#include "serve/supervisor/free_vram.hpp"
#include "serve/supervisor/time_source.hpp"

namespace strata::serve {

class SupervisorLog;

struct PreparationConfig {
    std::string before_load;  // a line for /bin/sh; "" = none
    // Stopping another program that holds the GPU takes seconds, not minutes.
    Milliseconds before_load_limit = std::chrono::seconds(60);
    std::int64_t min_free_vram_mib = 0;  // 0 = not looked at
    VramLimits vram;
};

// Why a load does not begin.
struct LoadRefusal {
    std::string code;  // before_load_failed, not_enough_vram
    std::string text;  // for people, with the figures
};

class LoadPreparation : private ProcessEvents {
  public:
    using Done = std::function<void(std::optional<LoadRefusal>)>;

    // References outlive this; `vram` may be null: then no GPU is known. `done` may come from
    // inside begin().
    LoadPreparation(PreparationConfig config, ProcessLauncher& launcher, TimeSource& time,
                    SupervisorLog& log, VramSource* vram, Done done);
    LoadPreparation(const LoadPreparation&) = delete;
    LoadPreparation& operator=(const LoadPreparation&) = delete;

    void begin();
    // Not from inside a call of this object.
    void abandon();

  private:
    void on_line(std::string_view line) override;
    void on_stderr_line(std::string_view line) override;
    void on_stream_fault(StreamFault fault) override;
    void on_exit(const ExitStatus& status) override;
    void on_drained() override;

    void begin_vram();
    void look_at_vram();
    void finish(std::optional<LoadRefusal> refusal);

    PreparationConfig config_;
    ProcessLauncher& launcher_;
    TimeSource& time_;
    SupervisorLog& log_;
    VramSource* vram_;
    Done done_;
    std::unique_ptr<Alarm> alarm_;  // the command's limit, or the next look
    std::unique_ptr<EngineProcess> command_;
    std::optional<ExitStatus> status_;
    bool timed_out_ = false;
    std::string last_line_;  // of the command's output
    TimePoint vram_asked_{};
};

}  // namespace strata::serve
