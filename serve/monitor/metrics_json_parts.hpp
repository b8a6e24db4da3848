// The parts of GET /metrics and the document of GET /cache that are about requests and the
// conversation cache; metrics_json puts them together. Keys only: every figure is given.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "protocol/cache_line.hpp"
#include "serve/monitor/cache_watch.hpp"
#include "serve/monitor/cache_window.hpp"
#include "serve/monitor/ram_split.hpp"
#include "serve/monitor/request_history.hpp"
#include "serve/supervisor/engine_client.hpp"

namespace strata::serve {

// What the configuration says about the cache and the Monitor.
struct CacheAsked {
    bool enabled = false;  // the cache was asked for; counts while the engine does not say
    std::int64_t floor_bytes = 0;
    std::int64_t hysteresis_bytes = 0;
    std::size_t window_rows = kCacheWindowRows;
};

template <class T>
boost::json::value or_null(const std::optional<T>& value) {
    return value ? boost::json::value(*value) : boost::json::value(nullptr);
}

// The running engine's word, or what was asked for while there is none that says it.
bool cache_enabled(const EngineView& engine, const CacheAsked& asked);
// The cache as the running engine's newest word has it; empty while no engine is ready.
// Tokens in the context: of the request that holds the engine, else of the conversation that it
// left; absent when none has been there since the engine started.
std::optional<std::int64_t> context_tokens(const EngineView& engine, const CachePresent& present);

CachePresent cache_present(const EngineView& engine, const CacheWatch& watch);

// Memory that the cache must leave: the running engine's word, or what was asked for.
std::int64_t floor_bytes(const EngineView& engine, const CacheAsked& asked);

boost::json::object row_json(const HistoryRow& row);
boost::json::object conversation_cache_json(const EngineView& engine, const RequestHistory& history,
                                            const CacheWatch& watch, const CacheAsked& asked);
boost::json::object ram_split_json(const RamSplit& split);
boost::json::object ram_lines_json(const EngineView& engine, const CacheAsked& asked);

// GET /cache. `first_words`: what is known of a conversation of the running epoch, by its number.
boost::json::object cache_list_json(double now_s, const EngineView& engine, const CacheAsked& asked,
                                    const std::vector<protocol::CacheRow>& rows,
                                    const std::map<std::uint64_t, std::string>& first_words);

}  // namespace strata::serve
