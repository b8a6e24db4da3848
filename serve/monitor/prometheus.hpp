// The figures of /metrics in Prometheus' text format (version 0.0.4): vLLM's names where dashboards
// know them, `strata:` for the conversation cache. Every series has the label model_name. A gauge
// that is not known is left out; counters and histograms are always there and never fall.
#pragma once

#include <string>

#include "serve/monitor/metrics_json.hpp"
#include "serve/monitor/monitor.hpp"

namespace strata::serve {

inline constexpr const char* kPrometheusContentType = "text/plain; version=0.0.4; charset=utf-8";

std::string prometheus_text(const MetricsInput& input, const Monitor& monitor,
                            const std::string& model_name);

}  // namespace strata::serve
