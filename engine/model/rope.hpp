// The frequencies of rotary embeddings, with the scalings for contexts longer than the trained one.
// Pure functions of the configuration. With theta_i = base^(-2i / dims) and s = 1 / factor:
//   linear   theta_i * s
//   yarn     theta_i * (s * (1 - mix) + mix), mix = ext_factor * (1 - clamp(ramp_i, 0, 1)),
//            ramp_i = (i - low) / (high - low); low and high are the pairs that turn beta_fast and
//            beta_slow times within the original context, rounded outwards:
//            dims * ln(context / (2 pi turns)) / (2 ln base) (Peng et al. 2023)
//   llama-3  theta_i / divisor_i, before any of these (tensor rope_freqs.weight)
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
