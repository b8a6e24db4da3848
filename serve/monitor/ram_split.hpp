// Where the machine's RAM is, in parts that do not overlap. Pure. What the engine's process holds
// is parted by what the engine says of itself; a part never exceeds what is left of the process.
//
// Invariant: the parts that are there add up to total_bytes.
#pragma once

#include <cstdint>
#include <optional>

#include "protocol/info_line.hpp"
#include "serve/monitor/cache_present.hpp"
#include "serve/monitor/hardware.hpp"

namespace strata::serve {

struct RamSplit {
    // Of the engine's process; absent when not known, or not in this machine's RAM.
    std::optional<std::int64_t> weights_bytes;
    std::optional<std::int64_t> active_kv_bytes;  // of the live conversation
    std::optional<std::int64_t> checkpoints_bytes;
    std::optional<std::int64_t> parked_bytes;
    std::optional<std::int64_t> retained_bytes;
    std::optional<std::int64_t> engine_other_bytes;
    std::optional<std::int64_t> server_bytes;
    std::int64_t other_bytes = 0;  // other processes and the system
    std::int64_t free_bytes = 0;   // available to whoever asks
};

// None: the machine's memory is not known. `present`: the running engine's word, empty without one.
std::optional<RamSplit> ram_split(const HardwareReading& reading,
                                  const std::optional<protocol::InfoLine>& info,
                                  const CachePresent& present);

}  // namespace strata::serve
