// The end of a process whose books are wrong: one line on stderr, exit status 70 (PROTOCOL.md).
// Nothing is unwound: destructors of a broken state could do more harm.
#include "strata/core/invariant.hpp"

#include <cstdio>

#include <unistd.h>

namespace strata {

namespace {
constexpr int kExitInvariant = 70;
}

void invariant_broken(const char* what, const char* file, int line) {
    std::fprintf(stderr, "strata: broken invariant: %s (%s:%d)\n", what, file, line);
    std::fflush(stderr);
    _exit(kExitInvariant);
}

}  // namespace strata
