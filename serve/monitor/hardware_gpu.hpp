// Readings of NVIDIA GPUs through the driver's own library, which is looked for at run time: a
// machine without it has no GPU, and nothing links against it.
//
// Invariants: 1. nobody waits for the driver: its calls, which may take seconds, happen on a thread
// of their own; 2. that thread reads only when somebody asked since the reading before; 3. a
// reading older than kStale is not given out.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace strata::serve {

inline constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";
inline constexpr std::size_t kGpusMax = 16;  // of one host; more than a page can show

// What the driver refuses to say is absent.
struct GpuReading {
    std::string name;
    std::optional<std::int64_t> memory_total_bytes;
    std::optional<std::int64_t> memory_used_bytes;
    std::optional<double> load_share;  // 0..1 of the driver's last sampling period
    std::optional<double> power_watts;
    std::optional<std::int64_t> temperature_c;
};

// The opened library. Not for several threads.
class Nvml {
  public:
    // Null: no such library, no driver behind it, or functions are missing.
    static std::unique_ptr<Nvml> open(const std::string& library);
    virtual ~Nvml() = default;
    virtual std::vector<GpuReading> read() = 0;
};

class GpuWatch {
  public:
    static constexpr std::chrono::seconds kStale{10};

    explicit GpuWatch(std::string library = kNvmlLibrary);
    // A driver that hangs is left behind after kLeaveWait.
    ~GpuWatch();
    GpuWatch(const GpuWatch&) = delete;
    GpuWatch& operator=(const GpuWatch&) = delete;

    // The newest reading, and asks for the next one. Empty until the first is there.
    std::vector<GpuReading> read();

  private:
    static constexpr std::chrono::seconds kLeaveWait{2};
    struct Shared;
    static void work(std::shared_ptr<Shared> shared, std::string library);

    std::string library_;
    std::shared_ptr<Shared> shared_;
    bool started_ = false;
};

}  // namespace strata::serve
