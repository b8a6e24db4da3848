// How much RAM this machine can still give: the reading as a value, and the arithmetic from what
// the OS says to that value. Owns the rule (DETAILS.md, Memory pressure); engine/host only reads
// the files and hands their contents over.
//
//   available = least of
//     MemAvailable of the host,
//     of each memory cgroup from the process's own up to the root, v1 and v2:
//       limit - usage + reclaimable       limit: memory.max and memory.high, each on its own
//       reclaimable = inactive file pages + reclaimable slab - what this process holds of them
//     --memory-limit-mib - this process's resident set.
//
// Active file pages are not counted back: the weights are among them. Nor are pages that this
// process has locked or maps for weights: the kernel would have to read them again at once. Swap is
// never available. All sums saturate; nothing is negative.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata {

// Which of the limits was the least.
enum class MemoryBound : std::uint8_t { host, cgroup_max, cgroup_high, own_limit };

// `available_bytes` is absent when the reading is unknown: what an absent figure stands for might
// be the smallest. Unknown releases nothing and parks nothing.
struct MemoryReading {
    std::optional<std::uint64_t> available_bytes;
    MemoryBound bound = MemoryBound::host;
    friend bool operator==(const MemoryReading&, const MemoryReading&) = default;
};

// One memory cgroup. An absent limit is no limit; an absent usage could not be read.
struct CgroupMemory {
    std::optional<std::uint64_t> max_bytes;
    std::optional<std::uint64_t> high_bytes;
    std::optional<std::uint64_t> usage_bytes;
    std::uint64_t reclaimable_bytes = 0;  // inactive file pages + reclaimable slab
    friend bool operator==(const CgroupMemory&, const CgroupMemory&) = default;
};

// Everything a reading is made of.
struct HostMemoryFigures {
    std::optional<std::uint64_t> mem_available_bytes;
    std::vector<CgroupMemory> cgroups;             // own cgroup first, then its ancestors
    std::uint64_t held_file_bytes = 0;             // file pages locked or mapped for weights by us
    std::optional<std::uint64_t> own_limit_bytes;  // --memory-limit-mib; absent = none
    std::optional<std::uint64_t> resident_bytes;   // of this process; needed with own_limit_bytes
};

// Unknown when MemAvailable is absent, when a cgroup with a limit has no usage, or when there is an
// own limit and no resident set.
[[nodiscard]] MemoryReading read_available(const HostMemoryFigures& figures);

// The files' contents, as the kernel writes them. Each parser answers nothing rather than a guess.

enum class CgroupVersion : std::uint8_t { v1, v2 };

// MemAvailable of /proc/meminfo.
[[nodiscard]] std::optional<std::uint64_t> parse_mem_available(std::string_view meminfo);
// VmRSS of /proc/self/status.
[[nodiscard]] std::optional<std::uint64_t> parse_resident(std::string_view status);
// One number of a cgroup file (memory.current, memory.usage_in_bytes ...).
[[nodiscard]] std::optional<std::uint64_t> parse_cgroup_number(std::string_view text);
// A limit file: absent when it is "max", v1's "unlimited" (2^62 bytes or more), or no number.
[[nodiscard]] std::optional<std::uint64_t> parse_cgroup_limit(std::string_view text);
// memory.stat: inactive_file + slab_reclaimable, of v1 total_inactive_file.
[[nodiscard]] std::uint64_t parse_reclaimable(std::string_view memory_stat, CgroupVersion version);

struct CgroupPlace {
    CgroupVersion version = CgroupVersion::v2;
    std::vector<std::string> directories;  // the process's own first, then each ancestor's
    friend bool operator==(const CgroupPlace&, const CgroupPlace&) = default;
};

// Where the files are, from /proc/self/cgroup and /proc/self/mountinfo. A hybrid host has both
// kinds: then there are two places, and the v2 one may lack the memory controller (no files there).
// Empty when the process is in no memory cgroup or none is mounted.
[[nodiscard]] std::vector<CgroupPlace> cgroup_places(std::string_view self_cgroup,
                                                     std::string_view mountinfo);

}  // namespace strata
