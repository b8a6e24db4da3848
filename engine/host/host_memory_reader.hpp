// Reads what the system says about its memory, and nothing more: which files there are, and their
// contents; what follows from them is core/host_memory.hpp's. Also the two other things that memory
// pressure asks of the system: to take back what the heap has free, and to say that tasks are
// waiting for memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/host_memory.hpp"

namespace strata {

struct HostMemorySources {
    // Before every path: empty but in tests, which lay out a system of their own.
    std::string root;
    std::optional<std::uint64_t> own_limit_bytes;  // --memory-limit-mib
    // --host-memory-file: read instead of the system at each reading; one number, MiB. Empty = off.
    std::string replacement_file;
};

class HostMemoryReader {
  public:
    explicit HostMemoryReader(HostMemorySources sources) : sources_(std::move(sources)) {}

    // Unknown also when a file that exists cannot be read, and when there is no memory to read it.
    // About 50 us.
    [[nodiscard]] MemoryReading sample_host_memory() noexcept;

  private:
    [[nodiscard]] MemoryReading replacement();
    [[nodiscard]] MemoryReading system();
    void find_places();
    // False: a file is there and could not be read.
    [[nodiscard]] bool add_cgroup(CgroupVersion version, const std::string& directory,
                                  std::vector<CgroupMemory>& into);

    HostMemorySources sources_;
    std::vector<CgroupPlace> places_;
    std::int64_t readings_with_places_ = 0;
    std::string text_;  // of the file that was read last
};

// glibc gives the memory that its heap has free back to the system.
void trim_heap() noexcept;

// From here on each allocation of at least a MiB is a mapping of its own, given back when it is
// freed. Left alone, glibc takes blocks of up to 32 MiB from its heap once one of them was freed;
// freed aligned ones do not fit the next ones there, and pages of conversations that are gone stay.
void keep_large_memory_out_of_heap() noexcept;

// A trigger of the kernel's pressure stall information: wakes poll() when tasks waited for memory.
// Where the kernel has none, or refuses one, there is none, and checks run on time alone.
class PressureTrigger {
  public:
    // `path` is /proc/pressure/memory but in tests.
    explicit PressureTrigger(const char* path = "/proc/pressure/memory");
    ~PressureTrigger();
    PressureTrigger(const PressureTrigger&) = delete;
    PressureTrigger& operator=(const PressureTrigger&) = delete;

    // For poll() with POLLPRI; -1 = there is none. POLLERR means that it is gone.
    [[nodiscard]] int descriptor() const { return descriptor_; }
    // True when it fired since the last call. Does not wait.
    [[nodiscard]] bool fired();

  private:
    void close();
    int descriptor_ = -1;
};

}  // namespace strata
