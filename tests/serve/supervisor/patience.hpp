// How long tests wait for what must come, and how much longer things may take where a sanitizer
// slows every program down.
#pragma once

#include <chrono>

namespace strata::serve::tests {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kPatience = 6;
#else
inline constexpr int kPatience = 1;
#endif

// What must come comes within this time, on a loaded machine, too. Shorter where a defence is taken
// away: what must not come is waited for there, and all tests of a row have 100 s
// (without_defence.cmake).
std::chrono::seconds late();

}  // namespace strata::serve::tests
