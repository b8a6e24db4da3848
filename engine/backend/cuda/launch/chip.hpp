// What the launch functions have to know of the device's chip to choose a kernel and its grid.
#pragma once

namespace strata::cuda {

struct Chip {
    int multiprocessors = 1;
    int compute = 75;  // capability: 10 * major + minor

    // Tensor cores multiply bf16 values (mma.sync).
    [[nodiscard]] constexpr bool multiplies_bf16() const { return compute >= 80; }
};

}  // namespace strata::cuda
