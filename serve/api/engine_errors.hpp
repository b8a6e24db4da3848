// What the supervisor says about the engine, in the words of an API error.
#pragma once

#include <cstdint>
#include <optional>

#include "serve/api/api_error.hpp"
#include "serve/supervisor/engine_client.hpp"

namespace strata::serve {

// A request that was accepted and could not be answered.
ApiError to_api_error(const EngineFailure& failure, std::int64_t prompt_tokens, std::int64_t n_ctx);

// None when a request may be queued now; else 503 with the seconds to wait. A restart that is
// nearly over is waited for in the queue, the first load and a long back-off are not. `was_ready`:
// an engine was ready before in this server's life.
std::optional<ApiError> not_ready(const EngineView& view, bool was_ready);

// Seconds until another try makes sense; for Retry-After.
std::chrono::seconds retry_after(const EngineView& view);

}  // namespace strata::serve
