// Is a request one that this model can answer? A pure function of values, before anything is
// touched.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "strata/engine.hpp"

namespace strata {

// The first reason to refuse `request`; none when it is good.
[[nodiscard]] std::optional<RequestRefusal> check_request(const GenerateRequest& request,
                                                          std::int64_t vocabulary,
                                                          Position context_tokens);

// The place in `modes` of the steering mode that `name` asks for; none when it is empty (off).
// Refused: no mode is called so.
[[nodiscard]] Result<std::optional<std::size_t>, RequestRefusal> find_steering(
    std::string_view name, std::span<const SteeringMode> modes);

}  // namespace strata
