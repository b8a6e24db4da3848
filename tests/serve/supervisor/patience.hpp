// How much longer things may take where a sanitizer slows every program down.
#pragma once

namespace strata::serve::tests {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr int kPatience = 6;
#else
inline constexpr int kPatience = 1;
#endif

}  // namespace strata::serve::tests
