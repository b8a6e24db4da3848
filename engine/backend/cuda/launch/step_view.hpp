// The step that is computed, in device memory at addresses that stay from step to step.
#pragma once

#include <cstdint>

#include "strata/core/types.hpp"

namespace strata::cuda {

struct alignas(16) StepHead {
    std::int64_t first;   // position of the first row
    std::int64_t rows;    // tokens of the step
    void* running_state;  // null for an attention-only model
};
struct StepView {
    const StepHead* head = nullptr;
    const TokenId* ids = nullptr;  // [rows]
    void* const* pages = nullptr;  // device addresses; cover positions 0 .. first + rows - 1
};

}  // namespace strata::cuda
