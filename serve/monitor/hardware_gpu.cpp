// The few functions of NVML that are used, by their documented names and layouts.
#include "serve/monitor/hardware_gpu.hpp"

#include <array>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

#include <dlfcn.h>

namespace strata::serve {
namespace {

using Device = void*;

struct MemoryBytes {
    unsigned long long total = 0;
    unsigned long long free = 0;
    unsigned long long used = 0;
};

struct LoadPercent {
    unsigned int gpu = 0;
    unsigned int memory = 0;
};

constexpr int kSuccess = 0;
constexpr int kTemperatureOfGpu = 0;
constexpr std::size_t kNameBytesMax = 96;

struct Functions {
    int (*init)() = nullptr;
    int (*shutdown)() = nullptr;
    int (*count)(unsigned int*) = nullptr;
    int (*handle)(unsigned int, Device*) = nullptr;
    int (*name)(Device, char*, unsigned int) = nullptr;
    int (*memory)(Device, MemoryBytes*) = nullptr;
    int (*load)(Device, LoadPercent*) = nullptr;
    int (*power)(Device, unsigned int*) = nullptr;  // milliwatts
    int (*temperature)(Device, int, unsigned int*) = nullptr;
};

template <class Function>
bool find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(::dlsym(library, name));
    return function != nullptr;
}

bool find_all(void* library, Functions& out) {
    return find(library, "nvmlInit_v2", out.init) && find(library, "nvmlShutdown", out.shutdown) &&
           find(library, "nvmlDeviceGetCount_v2", out.count) &&
           find(library, "nvmlDeviceGetHandleByIndex_v2", out.handle) &&
           find(library, "nvmlDeviceGetName", out.name) &&
           find(library, "nvmlDeviceGetMemoryInfo", out.memory) &&
           find(library, "nvmlDeviceGetUtilizationRates", out.load) &&
           find(library, "nvmlDeviceGetPowerUsage", out.power) &&
           find(library, "nvmlDeviceGetTemperature", out.temperature);
}

class OpenedNvml final : public Nvml {
  public:
    OpenedNvml(void* library, const Functions& functions)
        : library_(library), functions_(functions) {}
    OpenedNvml(const OpenedNvml&) = delete;
    OpenedNvml& operator=(const OpenedNvml&) = delete;
    ~OpenedNvml() override {
        functions_.shutdown();
        ::dlclose(library_);
    }

    std::vector<GpuReading> read() override {
        std::vector<GpuReading> out;
        unsigned int count = 0;
        if (functions_.count(&count) != kSuccess) return out;
        for (unsigned int i = 0; i < count && out.size() < kGpusMax; ++i) {
            Device device = nullptr;
            if (functions_.handle(i, &device) == kSuccess) out.push_back(reading_of(device));
        }
        return out;
    }

  private:
    GpuReading reading_of(Device device) const {
        GpuReading reading;
        std::array<char, kNameBytesMax + 1> name{};
        if (functions_.name(device, name.data(), kNameBytesMax) == kSuccess) {
            reading.name = name.data();
        }
        MemoryBytes memory;
        if (functions_.memory(device, &memory) == kSuccess) {
            reading.memory_total_bytes = static_cast<std::int64_t>(memory.total);
            reading.memory_used_bytes = static_cast<std::int64_t>(memory.used);
        }
        LoadPercent load;
        if (functions_.load(device, &load) == kSuccess) reading.load_share = load.gpu / 100.0;
        unsigned int value = 0;
        if (functions_.power(device, &value) == kSuccess) reading.power_watts = value / 1000.0;
        if (functions_.temperature(device, kTemperatureOfGpu, &value) == kSuccess) {
            reading.temperature_c = value;
        }
        return reading;
    }

    void* library_;
    Functions functions_;
};

}  // namespace

std::unique_ptr<Nvml> Nvml::open(const std::string& library) {
    void* const opened = ::dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (opened == nullptr) return nullptr;
    Functions functions;
    if (!find_all(opened, functions) || functions.init() != kSuccess) {
        ::dlclose(opened);
        return nullptr;
    }
    return std::make_unique<OpenedNvml>(opened, functions);
}

// Of the caller and the thread, which may outlive the caller.
struct GpuWatch::Shared {
    std::mutex mutex;
    std::condition_variable changed;
    bool wanted = false;
    bool leave = false;
    bool gone = false;  // the thread has ended
    std::vector<GpuReading> newest;
    std::chrono::steady_clock::time_point read_at{};
};

GpuWatch::GpuWatch(std::string library)
    : library_(std::move(library)), shared_(std::make_shared<Shared>()) {}

GpuWatch::~GpuWatch() {
    if (!started_) return;
    std::unique_lock lock(shared_->mutex);
    shared_->leave = true;
    shared_->changed.notify_all();
    shared_->changed.wait_for(lock, kLeaveWait, [this] { return shared_->gone; });
}

std::vector<GpuReading> GpuWatch::read() {
    if (!started_) {
        started_ = true;
        std::thread(work, shared_, library_).detach();
    }
    const std::lock_guard lock(shared_->mutex);
    shared_->wanted = true;
    shared_->changed.notify_all();
    if (std::chrono::steady_clock::now() - shared_->read_at > kStale) return {};
    return shared_->newest;
}

void GpuWatch::work(std::shared_ptr<Shared> shared, std::string library) {
    {
        const std::unique_ptr<Nvml> nvml = Nvml::open(library);
        while (nvml) {
            {
                std::unique_lock lock(shared->mutex);
                shared->changed.wait(lock, [&] { return shared->wanted || shared->leave; });
                if (shared->leave) break;
                shared->wanted = false;
            }
            std::vector<GpuReading> reading = nvml->read();
            const std::lock_guard lock(shared->mutex);
            shared->newest = std::move(reading);
            shared->read_at = std::chrono::steady_clock::now();
        }
    }
    const std::lock_guard lock(shared->mutex);
    shared->gone = true;
    shared->changed.notify_all();
}

}  // namespace strata::serve
