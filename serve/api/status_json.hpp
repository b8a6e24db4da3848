// The facts of the server as JSON: health, props, slots, models. What the engine does and did is
// the monitor's (/status, /metrics). Pure functions of values; the shapes may get keys, none goes
// away.
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

// What a load or an unload came to: 200 when nothing is under way any more, else 202.
Reply life_reply(const EngineView& view);

std::string props_json(const EngineView& view, const ApiSettings& settings, const TextModel& text,
                       std::int64_t n_ctx);

std::string slots_json(const EngineView& view, std::int64_t n_ctx);

// The superset object that OpenAI, Anthropic, vLLM and llama.cpp clients look into.
std::string model_json(const EngineView& view, const ApiSettings& settings, const TextModel& text,
                       std::int64_t n_ctx);

}  // namespace strata::serve
