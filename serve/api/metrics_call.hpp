// What GET /metrics asks for: JSON or Prometheus text, and how many rows. Pure.
#pragma once

#include <cstddef>
#include <string_view>

#include "serve/api/api_error.hpp"
#include "serve/monitor/metrics_json.hpp"

namespace strata::serve {

struct MetricsWish {
    bool prometheus = false;
    std::size_t rows = kRowsShown;
};

// `format` and `rows` are the query's values, "" = not given. A format counts more than `accept`;
// of that the type with the higher weight wins, JSON when both or neither are named.
ApiResult<MetricsWish> metrics_wish(std::string_view accept, std::string_view format,
                                    std::string_view rows);

}  // namespace strata::serve
