// See engine/engine_process.hpp.
#include "engine/engine_process.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <new>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <unistd.h>

#include "engine/command_inbox.hpp"
#include "engine/host/host_memory_reader.hpp"
#include "engine/host/input_pump.hpp"
#include "engine/host/mapped_segments.hpp"
#include "engine/host/output.hpp"
#include "engine/host/signals.hpp"
#include "engine/line_loop.hpp"
#include "engine/units.hpp"
#include "protocol/err_line.hpp"
#include "protocol/load_line.hpp"
#include "strata/backend/device_fault.hpp"

namespace strata {

namespace {

// How long a request may take to end itself and print DONE. An orphan must be gone within 2 s; a
// server that asked politely waits longer than that before it sends something stronger.
constexpr std::chrono::milliseconds kOrphanGraceMs{1200};
constexpr std::chrono::milliseconds kToldGraceMs{4000};
// A load has nothing to lose. This much it gets, so that a refusal which is on its way is still
// told.
constexpr std::chrono::milliseconds kLoadGraceMs{300};
constexpr std::chrono::milliseconds kCountedLateMs{10};     // between two looks at what was freed
constexpr std::chrono::milliseconds kLoadLineEveryMs{100};  // ten steps a second look smooth

void log_line(std::string_view text) {
    const std::string line = std::string(text) + "\n";
    std::fwrite(line.data(), 1, line.size(), stderr);
    std::fflush(stderr);
}

// What the process is busy with.
enum class Stage : std::uint8_t {
    checking,  // of the model file, before its weights are read: soon known, and worth to be told
    loading,   // cannot be interrupted
    serving,   // or leaving with a refusal
};

std::chrono::milliseconds grace_of(InputEnd end, Stage stage) {
    if (stage == Stage::loading) return kLoadGraceMs;
    switch (end) {
        case InputEnd::closed:
        case InputEnd::parent_gone:
            return kOrphanGraceMs;
        case InputEnd::signalled:
        case InputEnd::told:
            return kToldGraceMs;
    }
    return kToldGraceMs;
}

// Prints LOAD lines: the first, the last, and between them not too many.
class LoadReporter {
  public:
    explicit LoadReporter(LineOutput& output) : output_(output) {}
    void operator()(std::uint64_t done, std::uint64_t total) {
        const auto now = std::chrono::steady_clock::now();
        if (complete_ || (last_ && done < total && now - *last_ < kLoadLineEveryMs)) return;
        last_ = now;
        complete_ = done >= total;
        output_.write(protocol::format(protocol::LoadLine{done, total}) + "\n");
    }

  private:
    LineOutput& output_;
    std::optional<std::chrono::steady_clock::time_point> last_;
    bool complete_ = false;
};

// Before a request could be served: there is no device that can be used.
LoadFailure device_failure(const DeviceFault& fault) {
    return {ExitStatus::no_device_or_memory, std::string("the device failed: ") + fault.what()};
}

Result<LoadedModel, LoadFailure> load_guarded(const EngineOptions& options, const ModelLoader& load,
                                              LineOutput& output, std::atomic<Stage>& stage) {
    try {
        LoadReporter report(output);
        return load(options, [&](std::uint64_t done, std::uint64_t total) {
            stage = Stage::loading;
            report(done, total);
        });
    } catch (const std::bad_alloc&) {
        return Failure{LoadFailure{ExitStatus::no_device_or_memory,
                                   "not enough memory to load " + options.model_path}};
    } catch (const DeviceFault& fault) {
        return Failure{device_failure(fault)};
    }
}

// More than the model was trained for is refused by the loader.
std::int64_t context_of(const EngineOptions& options, std::int64_t trained) {
    if (options.max_context > 0) return options.max_context;
    return trained > 0 ? std::min(trained, kDefaultContextTokensMax) : kDefaultContextTokensMax;
}

std::uint64_t bytes_of_mib(std::int64_t mib) {
    return static_cast<std::uint64_t>(mib) * kBytesPerMib;
}

CacheSettings cache_settings_of(const EngineOptions& options) {
    CacheSettings settings;
    settings.cache.budget_bytes = bytes_of_mib(options.conversation_cache_mib);
    settings.cache.slots = options.conversation_cache_slots;
    settings.device_pool_bytes = bytes_of_mib(options.device_pool_mib);
    settings.cache.floor_bytes = bytes_of_mib(options.conversation_cache_min_free_mib);
    settings.cache.checkpoints_kept = options.prompt_cache;
    settings.hysteresis_bytes = bytes_of_mib(options.conv_pressure_hyst_mib);
    settings.pressure_period = std::chrono::milliseconds(options.conv_pressure_ms);
    settings.verify = options.snapshot_verify;
    return settings;
}

HostMemorySources memory_sources_of(const EngineOptions& options) {
    HostMemorySources sources;
    if (options.memory_limit_mib > 0) {
        sources.own_limit_bytes = bytes_of_mib(options.memory_limit_mib);
    }
    sources.replacement_file = options.host_memory_file;
    return sources;
}

EngineLimits limits_of(const EngineOptions& options, const Runner& runner) {
    EngineLimits limits;
    limits.context_tokens = context_of(options, runner.geometry().trained_context);
    limits.checkpoints = {options.prompt_cache, options.prompt_cache_every,
                          options.prompt_cache_root};
    limits.chunks = {options.chunk_tokens, static_cast<double>(options.chunk_ms)};
    limits.cache = cache_settings_of(options);
    limits.memory_limit_mib = options.memory_limit_mib;
    limits.turn_open = static_cast<TokenId>(options.turn_token);
    return limits;
}

Result<std::unique_ptr<Engine>, LoadFailure> make_guarded(LoadedModel& model,
                                                          const EngineLimits& limits,
                                                          const std::shared_ptr<StopBoard>& board,
                                                          const EngineHost& host) {
    try {
        auto engine = make_engine(std::move(model.runner), limits, board, host);
        if (engine) return std::move(engine).value();
        const bool memory = engine.error().kind == RefusalKind::out_of_memory;
        return Failure{
            LoadFailure{memory ? ExitStatus::no_device_or_memory : ExitStatus::bad_option,
                        engine.error().text}};
    } catch (const DeviceFault& fault) {
        return Failure{device_failure(fault)};
    }
}

// Serves until the input ends. Says a last line when it cannot go on.
bool serve(LineLoop& loop, LineOutput& output) {
    const auto last_words = [&](protocol::ErrCode code, const std::string& text) {
        output.write(protocol::format(protocol::ErrLine{code, 0, true, text}) + "\n");
        log_line("strata-engine: " + text);
        return false;
    };
    try {
        return loop.run();
    } catch (const DeviceFault& fault) {
        return last_words(protocol::ErrCode::device_lost, fault.what());
    } catch (const std::exception& fault) {
        return last_words(protocol::ErrCode::internal,
                          std::string("the engine cannot go on: ") + fault.what());
    }
}

ExitStatus leave_with(const LoadFailure& failure) {
    log_line("strata-engine: " + failure.text);
    return failure.status;
}

}  // namespace

ExitStatus run_engine_process(const EngineOptions& options, const ProcessPipes& pipes,
                              const ModelLoader& load) {
    const auto board = std::make_shared<StopBoard>();
    CommandInbox inbox(board);
    LineOutput output(pipes.output);
    std::atomic<Stage> stage = Stage::checking;
    std::atomic<ExitStatus> status = ExitStatus::ended;
    InputPumpCalls calls;
    calls.take = [&](std::string_view bytes) { return inbox.take(bytes); };
    calls.has_room = [&] { return inbox.has_room(); };
    calls.ended = [&](InputEnd) { inbox.close(); };
    calls.grace = [&](InputEnd end) { return grace_of(end, stage); };
    calls.overdue = [&] { ::_exit(static_cast<int>(status.load())); };
    calls.alarmed = [&] { inbox.alarm(); };
    std::optional<PressureTrigger> trigger;
    if (cache_settings_of(options).cache.enabled() && options.conv_pressure_ms > 0) {
        trigger.emplace();
    }
    const InputPump pump(pipes.input, pipes.signals, options.parent_pid, std::move(calls),
                         trigger ? trigger->descriptor() : -1);
    const auto leave = [&](const LoadFailure& failure) {
        status = failure.status;
        stage = Stage::serving;
        return leave_with(failure);
    };

    auto model = load_guarded(options, load, output, stage);
    if (!model) return leave(model.error());
    const EngineLimits limits = limits_of(options, *model->runner);
    MappedSegments segments;
    HostMemoryReader reader(memory_sources_of(options));
    const EngineHost host{&segments,
                          {[&] { return reader.sample_host_memory(); }, &trim_heap,
                           [] { std::this_thread::sleep_for(kCountedLateMs); }}};
    auto engine = make_guarded(*model, limits, board, host);
    if (!engine) return leave(engine.error());
    stage = Stage::serving;
    LineLoop loop(**engine, inbox, *board, output, log_line);
    if (serve(loop, output)) return ExitStatus::ended;
    // A device that was lost is not asked for anything more, its memory included: some calls would
    // wait for ever.
    ::_exit(static_cast<int>(ExitStatus::fatal));
}

int engine_main(int argc, const char* const* argv, const ModelLoader& load) {
    const auto output = claim_stdout();
    if (!output) return static_cast<int>(leave_with({ExitStatus::fatal, output.error().text}));
    const std::vector<std::string_view> arguments(argv + std::min(argc, 1), argv + argc);
    const auto options = parse_options(arguments, process_environment());
    if (!options) {
        return static_cast<int>(leave_with({ExitStatus::bad_option, options.error().text}));
    }
    if (options->show_help || options->show_version) {
        LineOutput(*output).write(options->show_help ? help_text() : version_text());
        return static_cast<int>(ExitStatus::ended);
    }
    if (!parent_is(options->parent_pid)) {
        return static_cast<int>(leave_with({ExitStatus::ended, "the parent is gone"}));
    }
    keep_large_memory_out_of_heap();
    const auto signals = claim_signals();
    if (!signals) return static_cast<int>(leave_with({ExitStatus::fatal, signals.error().text}));
    const std::string fault = "the model file changed while it was in use (SIGBUS)";
    const protocol::ErrLine last{protocol::ErrCode::internal, 0, true, fault};
    die_loudly_on_bus_error(*output, "strata-engine: " + fault + "\n",
                            protocol::format(last) + "\n", static_cast<int>(ExitStatus::fatal));
    return static_cast<int>(run_engine_process(*options, {STDIN_FILENO, *output, *signals}, load));
}

}  // namespace strata
