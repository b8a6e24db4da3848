#include "serve/monitor/metrics_json.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include <boost/json/array.hpp>
#include <boost/json/value.hpp>

#include "serve/monitor/metrics_json_parts.hpp"

namespace strata::serve {
namespace {

namespace json = boost::json;

constexpr std::size_t kHistorySeconds = 60;    // of the samples as objects
constexpr std::size_t kLogLinesShownMax = 20;  // of the engine's stderr

struct Phase {
    const char* state;
    const char* words;
};

Phase phase_of(const EngineView& engine) {
    switch (engine.state) {
        case EngineState::starting:
            return {"loading", "starting the engine"};
        case EngineState::preparing:
            return {"loading", "preparing the load"};
        case EngineState::loading:
            return {"loading", "loading the model"};
        case EngineState::restarting:
            return {"loading", "restarting the engine"};
        case EngineState::failed:
            return {"failed", "the engine does not start"};
        case EngineState::unloading:
            return {"unloaded", "unloading the model"};
        case EngineState::unloaded:
            return {"unloaded", "unloaded until a request comes"};
        case EngineState::stopped:
            return {"unloaded", "stopped"};
        case EngineState::ready:
            break;
    }
    if (!engine.busy) return {"idle", "waiting for a request"};
    if (engine.generated == 0) return {"reading", "reading the prompt"};
    return {"generating", "answering"};
}

json::object engine_json(const MetricsInput& input) {
    const EngineView& engine = input.engine;
    json::object out;
    out["epoch"] = engine.epoch;
    const protocol::InfoLine info = engine.info.value_or(protocol::InfoLine{});
    out["context"] = or_null(info.context_tokens);
    out["vocab"] = or_null(info.vocab);
    out["kv"] = or_null(info.kv);
    out["page_tokens"] = or_null(info.page_tokens);
    out["device"] = or_null(info.device);
    out["weights_mib"] = or_null(info.weights_mib);
    out["arch"] = or_null(info.arch);
    out["quant"] = or_null(info.quant);
    out["steer"] = or_null(info.steer);
    out["prompt_cache"] = or_null(info.prompt_cache);
    out["conversation_cache_mib"] = or_null(info.conversation_cache_mib);
    out["conversation_cache_slots"] = or_null(info.conversation_cache_slots);
    out["conversation_cache_min_free_mib"] = or_null(info.conversation_cache_min_free_mib);
    out["memory_limit_mib"] = or_null(info.memory_limit_mib);
    out["kv_bytes_per_token"] = or_null(info.kv_bytes_per_token);
    out["state_bytes"] = or_null(info.state_bytes);
    out["model_id"] = or_null(info.model_id);
    out["engine"] = or_null(info.engine);
    out["starts"] = engine.engine_starts;
    out["foreign_lines"] = engine.foreign_lines;
    out["foreign_dones"] = engine.foreign_dones;
    out["failure"] = engine.last_failure;
    out["failure_time"] = nullptr;
    if (engine.last_failure_at) {
        const std::chrono::duration<double> ago = input.now - *engine.last_failure_at;
        out["failure_time"] = input.now_s - ago.count();
    }
    out["unexpected_ends"] = engine.unexpected_ends;
    json::array lines;
    const std::size_t count = engine.last_lines.size();
    for (std::size_t i = count - std::min(count, kLogLinesShownMax); i < count; ++i) {
        lines.emplace_back(engine.last_lines[i]);
    }
    out["last_lines"] = std::move(lines);
    return out;
}

json::object totals_json(const HistoryTotals& totals) {
    json::object out;
    out["requests"] = totals.requests;
    out["refused"] = totals.refused;
    out["prompt_tokens"] = totals.prompt_tokens;
    out["reused_tokens"] = totals.reused_tokens;
    out["output_tokens"] = totals.output_tokens;
    out["prompt_ms"] = totals.prompt_ms;
    out["decode_ms"] = totals.decode_ms;
    out["since"] = totals.since_s;
    return out;
}

json::object gpu_json(const GpuReading& gpu) {
    return {{"name", gpu.name},
            {"memory_total_bytes", or_null(gpu.memory_total_bytes)},
            {"memory_used_bytes", or_null(gpu.memory_used_bytes)},
            {"load_share", or_null(gpu.load_share)},
            {"power_watts", or_null(gpu.power_watts)},
            {"temperature_c", or_null(gpu.temperature_c)}};
}

json::object hardware_json(const MetricsInput& input, const CacheWatch& watch) {
    const HardwareReading& reading = input.hardware;
    json::object out;
    out["cpu"] = nullptr;
    if (reading.cpu_share) {
        out["cpu"] =
            json::object{{"share", *reading.cpu_share}, {"threads", or_null(reading.cpu_threads)}};
    }
    out["ram"] = nullptr;
    if (reading.ram_total_bytes && reading.ram_available_bytes) {
        out["ram"] = json::object{{"total_bytes", *reading.ram_total_bytes},
                                  {"available_bytes", *reading.ram_available_bytes},
                                  {"engine_bytes", or_null(reading.engine_resident_bytes)},
                                  {"server_bytes", or_null(reading.server_resident_bytes)},
                                  {"split", nullptr},
                                  {"lines", ram_lines_json(input.engine, input.cache)}};
        const auto split =
            ram_split(reading, input.engine.info, cache_present(input.engine, watch));
        if (split) out["ram"].as_object()["split"] = ram_split_json(*split);
    }
    json::array gpus;
    for (const GpuReading& gpu : reading.gpus) gpus.push_back(gpu_json(gpu));
    out["gpu"] = gpus.empty() ? json::value(nullptr) : gpus.front();
    out["gpus"] = std::move(gpus);
    return out;
}

// Tokens of each second, oldest first; `last_second` is the one that is not over.
json::object speed_json(const std::vector<SpeedSample>& samples) {
    json::array read;
    json::array written;
    for (const SpeedSample& sample : samples) {
        read.push_back(sample.read_tokens);
        written.push_back(sample.written_tokens);
    }
    return {{"last_second", samples.empty() ? 0 : samples.back().second},
            {"read", std::move(read)},
            {"written", std::move(written)}};
}

void add_reading_left(json::object& live, const MetricsInput& input) {
    const EngineView& engine = input.engine;
    const bool reading = engine.state == EngineState::ready && engine.busy && engine.generated == 0;
    if (!reading) return;
    const double elapsed_s = std::chrono::duration<double>(input.now - engine.active_since).count();
    live["eta_s"] = or_null(
        reading_left_s(input.samples, elapsed_s, engine.prompt_tokens - engine.prompt_read));
}

}  // namespace

json::object status_json(const EngineView& engine, std::chrono::steady_clock::time_point now) {
    const Phase phase = phase_of(engine);
    const bool active = engine.state == EngineState::ready && engine.busy;
    const double elapsed_s =
        active ? std::chrono::duration<double>(now - engine.active_since).count() : 0.0;
    json::object out;
    out["state"] = phase.state;
    out["queued"] = engine.queued;
    out["phase"] = phase.words;
    out["prompt_tokens"] = active ? engine.prompt_tokens : 0;
    out["prompt_read"] = active ? engine.prompt_read : 0;
    out["generated"] = active ? engine.generated : 0;
    out["max_tokens"] = active ? engine.max_tokens : 0;
    out["elapsed_s"] = elapsed_s;
    out["load_progress"] = engine.state == EngineState::loading ? json::value(engine.load_progress)
                                                                : json::value(nullptr);
    out["eta_s"] = engine.eta ? json::value(engine.eta->count()) : json::value(nullptr);
    out["unload_in_s"] =
        engine.unload_in ? json::value(engine.unload_in->count()) : json::value(nullptr);
    out["failure"] = engine.failure;
    return out;
}

json::object metrics_json(const MetricsInput& input, const RequestHistory& history,
                          const CacheWatch& watch) {
    json::object out;
    out["time"] = input.now_s;
    out["engine"] = engine_json(input);
    json::object live = status_json(input.engine, input.now);
    add_reading_left(live, input);
    live["context_tokens"] =
        or_null(context_tokens(input.engine, cache_present(input.engine, watch)));
    out["live"] = std::move(live);
    json::array rows;
    for (const auto& row : history.newest_first()) {
        if (rows.size() == input.rows_shown) break;
        rows.push_back(row_json(row));
    }
    out["requests"] = std::move(rows);
    out["totals"] = totals_json(history.totals());
    out["conversation_cache"] = conversation_cache_json(input.engine, history, watch, input.cache);
    out["hardware"] = hardware_json(input, watch);
    json::array samples;
    const std::size_t count = input.samples.size();
    for (std::size_t i = count - std::min(count, kHistorySeconds); i < count; ++i) {
        const SpeedSample& sample = input.samples[i];
        samples.push_back(json::object{{"read_tokens", sample.read_tokens},
                                       {"written_tokens", sample.written_tokens}});
    }
    out["history"] = std::move(samples);
    out["speed"] = speed_json(input.samples);
    return out;
}

}  // namespace strata::serve
