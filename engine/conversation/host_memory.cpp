// The arithmetic of core/host_memory.hpp; the parsers are host_memory_text.cpp's.
#include "strata/core/host_memory.hpp"

#include <algorithm>

namespace strata {

namespace {

std::uint64_t less(std::uint64_t a, std::uint64_t b) {
    return a > b ? a - b : 0;
}

// What a limit leaves: usage may stand above it for a moment, and reclaimable pages are part of it.
std::uint64_t left_of(std::uint64_t limit, std::uint64_t usage, std::uint64_t reclaimable) {
    return less(limit, less(usage, reclaimable));
}

void take_least(MemoryReading& least, std::uint64_t bytes, MemoryBound bound) {
    if (bytes >= *least.available_bytes) return;
    least = {bytes, bound};
}

}  // namespace

MemoryReading read_available(const HostMemoryFigures& figures) {
    if (!figures.mem_available_bytes) return {};
    MemoryReading least{figures.mem_available_bytes, MemoryBound::host};
    for (const CgroupMemory& each : figures.cgroups) {
        if (!each.max_bytes && !each.high_bytes) continue;
        if (!each.usage_bytes) return {};
        const std::uint64_t reclaimable = less(each.reclaimable_bytes, figures.held_file_bytes);
        if (each.max_bytes) {
            take_least(least, left_of(*each.max_bytes, *each.usage_bytes, reclaimable),
                       MemoryBound::cgroup_max);
        }
        if (each.high_bytes) {
            take_least(least, left_of(*each.high_bytes, *each.usage_bytes, reclaimable),
                       MemoryBound::cgroup_high);
        }
    }
    if (figures.own_limit_bytes) {
        if (!figures.resident_bytes) return {};
        take_least(least, less(*figures.own_limit_bytes, *figures.resident_bytes),
                   MemoryBound::own_limit);
    }
    return least;
}

}  // namespace strata
