// GET /cache, DELETE /cache/{entry}, POST /cache/{entry}/pin: from a path and a body to the
// engine's command, and from its answer to a document or a refusal. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/cache_command.hpp"
#include "serve/api/api_error.hpp"
#include "serve/api/exchange.hpp"
#include "serve/monitor/metrics_json.hpp"
#include "serve/supervisor/engine_client.hpp"

namespace strata::serve {

// `entry` is what stands in the path.
ApiResult<protocol::CacheCommand> drop_command(std::string_view entry);
// An empty body pins; {"pinned": false} takes the pin away.
ApiResult<protocol::CacheCommand> pin_command(std::string_view entry, std::string_view body);

// Why it cannot be asked now: no engine (503); a request runs or waits, and the command changes
// what is parked (409).
std::optional<ApiError> cache_refusal(const EngineView& view,
                                      const protocol::CacheCommand& command);

ApiResult<Reply> cache_reply(const CacheAnswer& answer, const protocol::CacheCommand& command,
                             const MetricsInput& input,
                             const std::map<std::uint64_t, std::string>& first_words);

}  // namespace strata::serve
