// The one oracle of bad inputs: each costs its sender a typed error (no 5xx but 501), and the next
// good request gives the same bytes as if the bad one had never come.
#pragma once

#include "tests/support/server_process.hpp"

namespace strata::tests {

// Starts a server, sends it all of bad_inputs(), and ends it in order. Makes Catch2 checks.
void check_bad_inputs(const ServerOptions& options);

}  // namespace strata::tests
