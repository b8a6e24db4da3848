// The engine's process from the moment its options are known: starts the reader, loads the model,
// runs the line loop, leaves with the status of PROTOCOL.md. main.cpp gives it the real
// parts, a test its own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "engine/options.hpp"
#include "strata/core/result.hpp"
#include "strata/model/runner.hpp"

namespace strata {

enum class ExitStatus : int {
    ended = 0,  // QUIT, end of stdin, SIGTERM
    bad_option = 2,
    model_refused = 3,
    no_device_or_memory = 4,
    fatal = 5,
};

struct LoadedModel {
    std::unique_ptr<Device> device;  // outlives the runner
    std::unique_ptr<Runner> runner;
};
struct LoadFailure {
    ExitStatus status = ExitStatus::model_refused;
    std::string text;
};
// The first call says that the model is checked and its weights are being read: until then an end
// of the input waits for what the check says, afterwards a load is simply given up.
using LoadProgress = std::function<void(std::uint64_t bytes_done, std::uint64_t bytes_total)>;
using ModelLoader =
    std::function<Result<LoadedModel, LoadFailure>(const EngineOptions&, const LoadProgress&)>;

// The descriptors are borrowed; `signals` is claim_signals().
struct ProcessPipes {
    int input = -1;
    int output = -1;
    int signals = -1;
};

ExitStatus run_engine_process(const EngineOptions& options, const ProcessPipes& pipes,
                              const ModelLoader& load);

// What main() does around it: claims stdout and signals, reads the options, prints --help.
int engine_main(int argc, const char* const* argv, const ModelLoader& load);

}  // namespace strata
