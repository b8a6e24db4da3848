// A broken invariant ends the process at once with exit status 70: no answer is better than a wrong
// one.
#pragma once

namespace strata {

[[noreturn]] void invariant_broken(const char* what, const char* file, int line);

}  // namespace strata

#define STRATA_INVARIANT(condition)                                                   \
    do {                                                                              \
        if (!(condition)) ::strata::invariant_broken(#condition, __FILE__, __LINE__); \
    } while (false)
