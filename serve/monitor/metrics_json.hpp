// The JSON of GET /metrics and GET /status. Owns their keys; every number in it was given by the
// engine or counted by request_history and speed_meter. Unknown is null, never 0.
#pragma once

#include <vector>

#include <boost/json/object.hpp>

#include "serve/monitor/hardware.hpp"
#include "serve/monitor/request_history.hpp"
#include "serve/monitor/speed_meter.hpp"
#include "serve/supervisor/engine_client.hpp"

namespace strata::serve {

struct MetricsInput {
    double now_s = 0;  // seconds since 1970
    std::chrono::steady_clock::time_point now{};
    EngineView engine;
    std::vector<SpeedSample> samples;  // oldest first
    HardwareReading hardware;
};

// /status: state, queued, phase and the progress of the request that holds the engine.
boost::json::object status_json(const EngineView& engine,
                                std::chrono::steady_clock::time_point now);

// /metrics: time, engine, live, requests (newest first), totals, hardware, history.
boost::json::object metrics_json(const MetricsInput& input, const RequestHistory& history);

}  // namespace strata::serve
