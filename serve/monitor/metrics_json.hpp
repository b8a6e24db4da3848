// The JSON of GET /metrics and GET /status. Owns their keys; every number in it was given by the
// engine or counted by request_history, cache_watch and speed_meter. Unknown is null, never 0.
#pragma once

#include <vector>

#include <boost/json/object.hpp>

#include "serve/monitor/cache_watch.hpp"
#include "serve/monitor/hardware.hpp"
#include "serve/monitor/metrics_json_parts.hpp"
#include "serve/monitor/request_history.hpp"
#include "serve/monitor/speed_meter.hpp"
#include "serve/supervisor/engine_client.hpp"

namespace strata::serve {

inline constexpr std::size_t kRowsShown = 50;  // what a page shows; an answer of about 40 KB

struct MetricsInput {
    double now_s = 0;  // seconds since 1970
    std::chrono::steady_clock::time_point now{};
    EngineView engine;
    std::vector<SpeedSample> samples;  // oldest first
    HardwareReading hardware;
    CacheAsked cache;
    std::size_t rows_shown = kRowsShown;  // at most, newest first
};

// /status: state, queued, phase and the progress of the request that holds the engine.
boost::json::object status_json(const EngineView& engine,
                                std::chrono::steady_clock::time_point now);

// /metrics: time, engine, live, requests (newest first), totals, conversation_cache, hardware,
// history.
boost::json::object metrics_json(const MetricsInput& input, const RequestHistory& history,
                                 const CacheWatch& watch);

}  // namespace strata::serve
