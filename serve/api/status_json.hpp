// The facts of the server as JSON: health, status, props, slots, models. Pure functions of values;
// the shapes are those of the README's API section, to which keys may be added and none taken away.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "serve/api/api_error.hpp"
#include "serve/api/exchange.hpp"
#include "serve/api/settings.hpp"
#include "serve/supervisor/engine_client.hpp"
#include "serve/text/text_model.hpp"

namespace strata::serve {

// 200 when ready; 503 with stage, progress and the seconds left while loading, with the reason when
// the engine failed.
Reply health_reply(const EngineView& view, const ApiSettings& settings, std::int64_t n_ctx);

// What the engine does now. `now` is the steady clock of the view's times.
std::string status_json(const EngineView& view, std::chrono::steady_clock::time_point now);

std::string props_json(const EngineView& view, const ApiSettings& settings, const TextModel& text,
                       std::int64_t n_ctx);

std::string slots_json(const EngineView& view, std::int64_t n_ctx);

// The superset object that OpenAI, Anthropic, vLLM and llama.cpp clients look into.
std::string model_json(const EngineView& view, const ApiSettings& settings, const TextModel& text,
                       std::int64_t n_ctx);

// The engine's numbers alone, for /metrics when no monitor is composed in.
std::string plain_metrics_json(const EngineView& view, std::chrono::steady_clock::time_point now);

}  // namespace strata::serve
