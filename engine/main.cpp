// strata-engine: composes the real device and the real model with the engine's process. Nothing
// else.
#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "engine/device_choice.hpp"
#include "engine/engine_process.hpp"

namespace strata {

namespace {

constexpr int kThreadsMax = 512;  // what the CPU device takes

int threads_of(const EngineOptions& options) {
    if (options.threads > 0) return static_cast<int>(options.threads);
    return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kThreadsMax);
}

ExitStatus status_of(RefusalKind kind) {
    switch (kind) {
        case RefusalKind::refused:
            return ExitStatus::model_refused;
        case RefusalKind::out_of_memory:
            return ExitStatus::no_device_or_memory;
        case RefusalKind::bad_option:
            return ExitStatus::bad_option;
    }
    return ExitStatus::model_refused;
}

Result<LoadedModel, LoadFailure> load_model(const EngineOptions& options,
                                            const LoadProgress& progress) {
    CpuDeviceOptions cpu;
    cpu.threads = threads_of(options);
    cpu.kernels = std::string(kernel_name(options.kernels));
    cpu.exact = options.exact;
    auto device = open_device(options.device, cpu);
    if (!device) {
        return Failure{LoadFailure{ExitStatus::no_device_or_memory, device.error().text}};
    }
    RunnerOptions model;
    model.model_path = options.model_path;
    model.kv_type = options.kv;
    model.max_context = options.max_context;
    model.default_context = kDefaultContextTokensMax;
    model.chunk_tokens = options.chunk_tokens;
    model.turn_token = static_cast<TokenId>(options.turn_token);
    model.control_vectors = options.control_vectors;
    auto runner = load_runner(**device, model, progress);
    if (!runner) {
        return Failure{LoadFailure{status_of(runner.error().kind), runner.error().text}};
    }
    return LoadedModel{std::move(device).value(), std::move(runner).value()};
}

}  // namespace

}  // namespace strata

int main(int argc, char** argv) {
    return strata::engine_main(argc, argv, &strata::load_model);
}
