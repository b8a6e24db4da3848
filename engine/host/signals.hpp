// What the engine does about signals. SIGTERM, SIGINT and SIGHUP become readable on a descriptor
// (the input pump's); SIGPIPE becomes a write error; SIGBUS, which a model file that shrinks under
// its mapping raises, ends the process with a message instead of silently.
#pragma once

#include <string>

#include "strata/core/result.hpp"

namespace strata {

// Blocks the three signals in this thread and in all it starts, ignores SIGPIPE, and returns a
// descriptor that reads a byte or more when one of the three has come. Before any thread is
// started.
Result<int> claim_signals();

// On SIGBUS: writes `message` to stderr and `last_line` to `output`, leaves with `status`.
void die_loudly_on_bus_error(int output, std::string message, std::string last_line, int status);

}  // namespace strata
