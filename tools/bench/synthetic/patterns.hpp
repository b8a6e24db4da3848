// Random valid blocks of a tensor type. A pattern is repeated to fill a tensor of any size: what is
// timed does not depend on the values, and a pattern is larger than a row, so neighbours differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "strata/backend/tensor.hpp"
#include "tools/bench/synthetic/geometry.hpp"

namespace strata::bench {

// Fills `to` (whole blocks of `type`) with what the seed says: the same bytes for the same
// arguments. Scales are finite and of a size that gives a matrix's values mean 0 and deviation
// about 0.02.
void fill_pattern(ElementType type, Content content, std::uint64_t seed, std::span<std::byte> to);

}  // namespace strata::bench
