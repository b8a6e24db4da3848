// Arithmetic on sizes that a stranger wrote: every sum and product either fits or says that it does
// not.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

namespace strata {

template <std::unsigned_integral T>
[[nodiscard]] constexpr std::optional<T> checked_add(T a, T b) {
    T out{};
    if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
    return out;
}

template <std::unsigned_integral T>
[[nodiscard]] constexpr std::optional<T> checked_mul(T a, T b) {
    T out{};
    if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
    return out;
}

// The smallest multiple of `step` that is >= n. Precondition: step > 0.
template <std::unsigned_integral T>
[[nodiscard]] constexpr std::optional<T> checked_round_up(T n, T step) {
    const T rest = n % step;
    return rest == 0 ? std::optional<T>(n) : checked_add<T>(n, step - rest);
}

}  // namespace strata
