// strata-engine: composes the real device and the real model with the engine's process. Nothing
// else.
#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "engine/engine_process.hpp"

namespace strata {

namespace {

constexpr int kThreadsMax = 512;  // what the CPU device takes

int threads_of(const EngineOptions& options) {
    if (options.threads > 0) return static_cast<int>(options.threads);
    return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kThreadsMax);
}

Failure<LoadFailure> failed(ExitStatus status, const Refusal& refusal) {
    return {LoadFailure{status, refusal.text}};
}

Result<LoadedModel, LoadFailure> load_model(const EngineOptions& options,
                                            const LoadProgress& progress) {
    CpuDeviceOptions cpu;
    cpu.threads = threads_of(options);
    cpu.kernels = std::string(kernel_name(options.kernels));
    auto device = make_cpu_device(cpu);
    if (!device) return failed(ExitStatus::no_device_or_memory, device.error());
    RunnerOptions model;
    model.model_path = options.model_path;
    model.kv_type = options.kv;
    model.max_context = options.max_context;
    model.chunk_tokens = options.chunk_tokens;
    auto runner = load_runner(**device, model, progress);
    if (!runner) {
        const bool memory = runner.error().kind == RefusalKind::out_of_memory;
        return failed(memory ? ExitStatus::no_device_or_memory : ExitStatus::model_refused,
                      runner.error());
    }
    return LoadedModel{std::move(device).value(), std::move(runner).value()};
}

}  // namespace

}  // namespace strata

int main(int argc, char** argv) {
    return strata::engine_main(argc, argv, &strata::load_model);
}
