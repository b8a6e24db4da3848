// How many pages hold so many rows.
#pragma once

#include <cstddef>

#include "strata/core/types.hpp"

namespace strata {

[[nodiscard]] inline std::size_t pages_for(Position rows) {
    return static_cast<std::size_t>((rows + kPageTokens - 1) / kPageTokens);
}

}  // namespace strata
