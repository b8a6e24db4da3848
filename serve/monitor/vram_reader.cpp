#include "serve/monitor/vram_reader.hpp"

#include <mutex>
#include <thread>
#include <utility>

namespace strata::serve {

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20U;

std::vector<GpuMemory> memory_of(const std::vector<GpuReading>& readings) {
    std::vector<GpuMemory> gpus;
    for (const GpuReading& reading : readings) {
        if (!reading.memory_total_bytes || !reading.memory_used_bytes) continue;
        const std::int64_t total = *reading.memory_total_bytes;
        gpus.push_back({reading.name, (total - *reading.memory_used_bytes) / kMiB, total / kMiB});
    }
    return gpus;
}

}  // namespace

struct VramReader::Question {
    std::mutex mutex;
    std::optional<std::vector<GpuMemory>> answer;
};

void VramReader::ask() {
    // One that is under way will be new enough; a driver that hangs gets no second thread.
    if (question_ && !answer()) return;
    question_ = std::make_shared<Question>();
    std::thread([question = question_, library = library_] {
        const std::unique_ptr<Nvml> nvml = Nvml::open(library);
        std::vector<GpuMemory> gpus = nvml ? memory_of(nvml->read()) : std::vector<GpuMemory>{};
        const std::lock_guard lock(question->mutex);
        question->answer = std::move(gpus);
    }).detach();
}

std::optional<std::vector<GpuMemory>> VramReader::answer() {
    if (!question_) return std::nullopt;
    const std::lock_guard lock(question_->mutex);
    return question_->answer;
}

}  // namespace strata::serve
