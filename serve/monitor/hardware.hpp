// Readings of the machine for the page: processor load, memory, GPUs. What cannot be read is
// absent, not 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/monitor/hardware_gpu.hpp"

namespace strata::serve {

struct CpuTimes {
    std::uint64_t busy = 0;  // ticks of all processors since boot
    std::uint64_t all = 0;
};

struct HardwareReading {
    std::optional<double> cpu_share;  // 0..1 of all processors since the reading before
    std::optional<std::int64_t> ram_total_bytes;
    std::optional<std::int64_t> ram_available_bytes;
    std::optional<std::int64_t> engine_resident_bytes;
    std::optional<std::int64_t> server_resident_bytes;
    std::optional<std::int64_t> cpu_threads;  // that the machine runs at a time
    std::vector<GpuReading> gpus;             // empty = none is known
};

// /proc/stat's first line; absent when it does not read like one.
std::optional<CpuTimes> parse_cpu_times(std::string_view proc_stat);
// The value in bytes of a line "Name:   123 kB" of /proc/meminfo or /proc/PID/status.
std::optional<std::int64_t> parse_kib_line(std::string_view text, std::string_view name);
// The share of busy ticks between two readings; absent when no tick passed.
std::optional<double> busy_share(const CpuTimes& before, const CpuTimes& after);

class HardwareReader {
  public:
    // `engine_pid` 0 = no engine runs.
    HardwareReading read(int engine_pid);

  private:
    std::optional<CpuTimes> before_;
    GpuWatch gpus_;
};

}  // namespace strata::serve
