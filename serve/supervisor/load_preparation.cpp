// The command, then the memory.
#include "serve/supervisor/load_preparation.hpp"

#include <utility>

#include "serve/supervisor/engine_supervisor.hpp"
#include "serve/supervisor/printable.hpp"

namespace strata::serve {

namespace {

constexpr std::size_t kLineShownBytes = 1000;
constexpr Milliseconds kLookEvery{100};  // a driver answers in a few milliseconds

std::string how_it_ended(const ExitStatus& status) {
    if (status.signalled) return "was ended by signal " + std::to_string(status.number);
    return "ended with status " + std::to_string(status.number);
}

}  // namespace

LoadPreparation::LoadPreparation(PreparationConfig config, ProcessLauncher& launcher,
                                 TimeSource& time, SupervisorLog& log, VramSource* vram, Done done)
    : config_(std::move(config)),
      launcher_(launcher),
      time_(time),
      log_(log),
      vram_(vram),
      done_(std::move(done)),
      alarm_(time.make_alarm()) {}

void LoadPreparation::begin() {
    if (config_.before_load.empty()) {
        begin_vram();
        return;
    }
    status_.reset();
    timed_out_ = false;
    last_line_.clear();
    Result<std::unique_ptr<EngineProcess>, LaunchRefusal> launched =
        launcher_.launch({"/bin/sh", {"-c", config_.before_load}}, *this);
    if (!launched.ok()) {
        finish(LoadRefusal{"before_load_failed",
                           "before_load could not be started: " + launched.error().text});
        return;
    }
    command_ = std::move(*launched);
    command_->close_stdin();
    log_.event("before_load runs, process " + std::to_string(command_->pid()));
    alarm_->set(time_.now() + config_.before_load_limit, [this] {
        timed_out_ = true;
        command_->kill_group();
    });
}

void LoadPreparation::abandon() {
    alarm_->clear();
    command_.reset();
}

void LoadPreparation::on_line(std::string_view line) {
    last_line_ = printable(line, kLineShownBytes);
    log_.event("before_load: " + last_line_);
}

void LoadPreparation::on_stderr_line(std::string_view line) {
    on_line(line);
}

// Its end says what is wrong.
void LoadPreparation::on_stream_fault(StreamFault) {}

void LoadPreparation::on_exit(const ExitStatus& status) {
    status_ = status;
    alarm_->clear();
}

void LoadPreparation::on_drained() {
    // The process is calling: it goes when that call has returned.
    time_.post([gone = std::shared_ptr<EngineProcess>(std::move(command_))] {});
    if (status_ == ExitStatus{}) {
        begin_vram();
        return;
    }
    std::string text = "before_load ";
    if (timed_out_) {
        text += "was ended because it took longer than " +
                std::to_string(config_.before_load_limit.count() / 1000) + " s";
    } else {
        text += how_it_ended(*status_);
    }
    if (!last_line_.empty()) text += ": " + last_line_;
    finish(LoadRefusal{"before_load_failed", std::move(text)});
}

void LoadPreparation::begin_vram() {
    if (config_.min_free_vram_mib == 0) {
        finish(std::nullopt);
        return;
    }
    vram_asked_ = time_.now();
    if (vram_ != nullptr) vram_->ask();
    look_at_vram();
}

void LoadPreparation::look_at_vram() {
    const auto answer =
        vram_ == nullptr ? std::optional(std::vector<GpuMemory>{}) : vram_->answer();
    const auto waited = std::chrono::duration_cast<Milliseconds>(time_.now() - vram_asked_);
    switch (judge_vram(answer, config_.min_free_vram_mib, waited, config_.vram)) {
        case VramVerdict::enough:
            finish(std::nullopt);
            return;
        case VramVerdict::unknown:
            log_.event("min_free_vram_mib is ignored: " +
                       std::string(answer ? "this machine has no GPU that tells its free memory"
                                          : "the GPU's driver does not answer"));
            finish(std::nullopt);
            return;
        case VramVerdict::too_little:
            finish(LoadRefusal{"not_enough_vram",
                               "not enough GPU memory for a load: " + vram_text(*answer) +
                                   "; min_free_vram_mib asks for " +
                                   std::to_string(config_.min_free_vram_mib)});
            return;
        case VramVerdict::look_again:
            break;
    }
    if (answer) vram_->ask();
    alarm_->set(time_.now() + kLookEvery, [this] { look_at_vram(); });
}

void LoadPreparation::finish(std::optional<LoadRefusal> refusal) {
    alarm_->clear();
    done_(std::move(refusal));
}

}  // namespace strata::serve
