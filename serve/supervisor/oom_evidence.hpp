// What the kernel counted as killed for want of memory in this process's control group.
#pragma once

#include <cstdint>

namespace strata::serve {

// oom_kill of the group this process is in (cgroup v2: memory.events, v1: memory.oom_control); 0
// where that cannot be read.
std::uint64_t oom_kill_count();

}  // namespace strata::serve
