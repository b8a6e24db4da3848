// The frequencies of rotary embeddings, with the scalings for contexts longer than the trained one.
// Pure functions of the configuration; the formulas are models.md's, "Rope scaling": linear; yarn
// (Peng et al. 2023); factors per pair (llama-3, tensor rope_freqs.weight).
#pragma once

#include <span>
#include <vector>

#include "engine/model/model_config.hpp"

namespace strata {

// Radians per position of each of the dims / 2 pairs. `divisors`: one for each pair, or empty.
[[nodiscard]] std::vector<double> rope_frequencies(const RopeConfig& rope,
                                                   std::span<const float> divisors);

// What cosine and sine are multiplied by.
[[nodiscard]] double rope_magnitude(const RopeConfig& rope);

}  // namespace strata
