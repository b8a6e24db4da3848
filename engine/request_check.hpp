// Is a request one that this model can answer? A pure function of values, before anything is
// touched.
#pragma once

#include <cstdint>
#include <optional>

#include "strata/engine.hpp"

namespace strata {

// The first reason to refuse `request`; none when it is good.
[[nodiscard]] std::optional<RequestRefusal> check_request(const GenerateRequest& request,
                                                          std::int64_t vocabulary,
                                                          Position context_tokens);

}  // namespace strata
