// fork and exec of the engine through Boost.Process v2, with what that library leaves out: the
// three pipes, closing every other descriptor, the death signal, a process group, signal
// dispositions, the OOM score, and the reaping of a child whose exec failed. Owns nothing after it
// returned.
#pragma once

#include <sys/types.h>

#include "serve/supervisor/engine_process.hpp"
#include "strata/core/result.hpp"

namespace strata::serve {

// Our ends of the pipes and the child's pidfd: all close-on-exec, the pipes non-blocking.
struct LaunchedChild {
    pid_t pid = -1;
    int pidfd = -1;
    int stdin_write = -1;
    int stdout_read = -1;
    int stderr_read = -1;
};

// Must be called on a thread that lives as long as the process: the kernel sends the death signal
// when the thread that forked ends.
Result<LaunchedChild, LaunchRefusal> launch_child(const EngineCommand& command);

}  // namespace strata::serve
