// A synthetic model as the bytes of a whole GGUF file, in address space alone: each tensor is a few
// MiB of random blocks, mapped again and again behind one another. A model of 45 GB takes no more
// memory than one of 45 MB, and is there in a moment.
#pragma once

#include <cstdint>

#include "strata/core/result.hpp"
#include "strata/model/runner.hpp"
#include "tools/bench/synthetic/geometry.hpp"

namespace strata::bench {

// The same bytes for the same model and seed. Refuses what the system refuses to map.
Result<ModelImage> map_synthetic(const SyntheticModel& model, std::uint64_t seed);

}  // namespace strata::bench
