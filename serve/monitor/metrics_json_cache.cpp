// The conversation cache's block, its events, the RAM's parts and lines, and the list of what is
// parked.
#include <string_view>
#include <type_traits>

#include <boost/json/array.hpp>

#include "serve/monitor/metrics_json_parts.hpp"

namespace strata::serve {
namespace {

namespace json = boost::json;

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
// A figure of the engine in MiB that is more than this is none.
constexpr std::int64_t kMibMax = std::int64_t{1} << 40;

json::string_view text(std::string_view word) {
    return {word.data(), word.size()};
}

template <class Enum>
json::value word_or_null(const std::optional<Enum>& value) {
    return value ? json::value(text(protocol::word(*value))) : json::value(nullptr);
}

json::value bytes_or_null(const std::optional<std::int64_t>& mib) {
    return mib && *mib <= kMibMax ? json::value(*mib * kMiB) : json::value(nullptr);
}

json::object conv_json(const protocol::ConvLine& line) {
    return {{"kind", text(protocol::word(line.kind))},
            {"ticket", or_null(line.id)},
            {"conv", or_null(line.conv)},
            {"entry", or_null(line.entry)},
            {"tokens", or_null(line.tokens)},
            {"bytes", or_null(line.bytes)},
            {"ms", or_null(line.ms)},
            {"reason", word_or_null(line.reason)},
            {"label", line.label.empty() ? json::value(nullptr) : json::value(line.label)},
            {"pressure", nullptr}};
}

json::object pressure_json(const protocol::PressureLine& line) {
    json::object figures{{"where", word_or_null(line.where)},
                         {"released_dialogs", or_null(line.released_dialogs)},
                         {"released_mib", or_null(line.released_mib)},
                         {"retained_mib", or_null(line.retained_mib)},
                         {"lane_checkpoints_mib", or_null(line.lane_checkpoints_mib)},
                         {"available_before_mib", or_null(line.available_before_mib)},
                         {"available_after_mib", or_null(line.available_after_mib)},
                         {"floor_mib", or_null(line.floor_mib)},
                         {"target_mib", or_null(line.target_mib)},
                         {"parked", or_null(line.now.parked)},
                         {"exhausted", or_null(line.exhausted)}};
    return {{"kind", "pressure"},     {"ticket", nullptr},
            {"conv", nullptr},        {"entry", nullptr},
            {"tokens", nullptr},      {"bytes", bytes_or_null(line.released_mib)},
            {"ms", or_null(line.ms)}, {"reason", nullptr},
            {"label", nullptr},       {"pressure", std::move(figures)}};
}

json::object event_json(const CacheEvent& event) {
    json::object out = std::visit(
        [](const auto& line) {
            if constexpr (std::is_same_v<std::decay_t<decltype(line)>, protocol::ConvLine>) {
                return conv_json(line);
            } else {
                return pressure_json(line);
            }
        },
        event.what);
    out["time"] = event.time_s;
    out["epoch"] = event.epoch;
    return out;
}

// Null where the engine does not say it.
void add_present(json::object& out, const EngineView& engine, const CachePresent& present) {
    const protocol::InfoLine info = engine.info.value_or(protocol::InfoLine{});
    out["as_of"] = or_null(present.as_of_s);
    out["parked"] = or_null(present.parked);
    out["slots"] = or_null(info.conversation_cache_slots);
    out["bytes"] = or_null(present.bytes);
    out["retained_bytes"] = or_null(present.retained);
    out["budget_bytes"] = bytes_or_null(info.conversation_cache_mib);
    out["evictions"] = or_null(present.evictions);
    out["evicted_budget"] = or_null(present.evicted_budget);
    out["evicted_slots"] = or_null(present.evicted_slots);
    out["released"] = or_null(present.released);
    out["superseded"] = or_null(present.superseded);
    out["lost"] = or_null(present.lost);
    out["skipped"] = present.skipped;
    out["live_conv"] = or_null(present.live_conv);
    out["checkpoints"] = or_null(present.checkpoints);
    out["available_bytes"] = bytes_or_null(present.available_mib);
}

json::value steering(const std::optional<std::string>& steer) {
    if (!steer) return nullptr;
    return steer->empty() ? json::value("off") : json::value(*steer);
}

}  // namespace

std::int64_t floor_bytes(const EngineView& engine, const CacheAsked& asked) {
    const bool said = engine.info && engine.info->conversation_cache_min_free_mib;
    if (!said || *engine.info->conversation_cache_min_free_mib > kMibMax) return asked.floor_bytes;
    return *engine.info->conversation_cache_min_free_mib * kMiB;
}

bool cache_enabled(const EngineView& engine, const CacheAsked& asked) {
    const bool said = engine.info && engine.info->conversation_cache_mib;
    return said ? *engine.info->conversation_cache_mib > 0 : asked.enabled;
}

std::optional<std::int64_t> context_tokens(const EngineView& engine, const CachePresent& present) {
    if (engine.state != EngineState::ready) return std::nullopt;
    if (engine.busy) return engine.prompt_read + engine.generated;
    return present.live_tokens;
}

CachePresent cache_present(const EngineView& engine, const CacheWatch& watch) {
    if (engine.state != EngineState::ready) return {};
    return watch.present(engine.epoch);
}

json::object conversation_cache_json(const EngineView& engine, const RequestHistory& history,
                                     const CacheWatch& watch, const CacheAsked& asked) {
    json::object out;
    const bool enabled = cache_enabled(engine, asked);
    out["enabled"] = enabled;
    out["window"] = asked.window_rows;
    const CacheWindow window = cache_window(history.newest_first(), asked.window_rows);
    out["rows"] = window.rows;
    out["prompt_tokens"] = window.prompt_tokens;
    out["reused_tokens"] = window.reused_tokens;
    out["switches"] = window.switches;
    out["hits"] = window.hits;
    if (enabled && engine.state == EngineState::ready) {
        add_present(out, engine, cache_present(engine, watch));
    }
    out["floor_bytes"] = floor_bytes(engine, asked);
    out["floor_hysteresis_bytes"] = floor_bytes(engine, asked) + asked.hysteresis_bytes;
    const HistoryTotals& totals = history.totals();
    out["totals"] = json::object{
        {"requests", totals.requests},           {"prompt_tokens", totals.prompt_tokens},
        {"reused_tokens", totals.reused_tokens}, {"output_tokens", totals.output_tokens},
        {"switches", totals.switches},           {"hits", totals.hits}};
    json::array events;
    for (const CacheEvent& event : watch.newest_first()) events.push_back(event_json(event));
    out["events"] = std::move(events);
    return out;
}

json::object ram_split_json(const RamSplit& split) {
    return {{"weights_bytes", or_null(split.weights_bytes)},
            {"active_kv_bytes", or_null(split.active_kv_bytes)},
            {"checkpoints_bytes", or_null(split.checkpoints_bytes)},
            {"parked_bytes", or_null(split.parked_bytes)},
            {"retained_bytes", or_null(split.retained_bytes)},
            {"engine_other_bytes", or_null(split.engine_other_bytes)},
            {"server_bytes", or_null(split.server_bytes)},
            {"other_bytes", split.other_bytes},
            {"free_bytes", split.free_bytes}};
}

json::object ram_lines_json(const EngineView& engine, const CacheAsked& asked) {
    const protocol::InfoLine info = engine.info.value_or(protocol::InfoLine{});
    return {{"floor_bytes", floor_bytes(engine, asked)},
            {"floor_hysteresis_bytes", floor_bytes(engine, asked) + asked.hysteresis_bytes},
            {"budget_bytes", bytes_or_null(info.conversation_cache_mib)}};
}

json::object cache_list_json(double now_s, const EngineView& engine, const CacheAsked& asked,
                             const std::vector<protocol::CacheRow>& rows,
                             const std::map<std::uint64_t, std::string>& first_words) {
    const protocol::InfoLine info = engine.info.value_or(protocol::InfoLine{});
    json::array entries;
    for (const protocol::CacheRow& row : rows) {
        const auto words = row.conv ? first_words.find(*row.conv) : first_words.end();
        entries.push_back(
            json::object{{"entry", row.entry},
                         {"conv", or_null(row.conv)},
                         {"tokens", or_null(row.tokens)},
                         {"bytes", or_null(row.bytes)},
                         {"unique_bytes", or_null(row.unique_bytes)},
                         {"checkpoints", or_null(row.checkpoints)},
                         {"last_used_s", or_null(row.last_used)},
                         {"hits", or_null(row.hits)},
                         {"pinned", or_null(row.pinned)},
                         {"steer", steering(row.steer)},
                         {"where", word_or_null(row.where)},
                         {"label", row.label},
                         {"first_words", words == first_words.end() ? json::value(nullptr)
                                                                    : json::value(words->second)}});
    }
    return {{"enabled", cache_enabled(engine, asked)},
            {"epoch", engine.epoch},
            {"time", now_s},
            {"slots", or_null(info.conversation_cache_slots)},
            {"budget_bytes", bytes_or_null(info.conversation_cache_mib)},
            {"entries", std::move(entries)}};
}

}  // namespace strata::serve
