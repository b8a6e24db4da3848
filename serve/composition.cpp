// One function for each room.
#include "serve/composition.hpp"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace strata::serve {

namespace {

// What the engine takes of a longer context when nobody names one (DETAILS.md, --max-context).
constexpr std::int64_t kContextTokensOfItself = 32'768;
constexpr std::size_t kMiB = std::size_t{1} << 20U;

void add(std::vector<std::string>& arguments, std::string name, std::string value) {
    arguments.push_back(std::move(name));
    arguments.push_back(std::move(value));
}

}  // namespace

std::string_view server_version() {
    return STRATA_VERSION;
}

ModelFacts model_facts(const gguf::Header& header, std::int64_t file_bytes) {
    ModelFacts facts;
    facts.file_bytes = file_bytes;
    if (const auto architecture = header.string_value("general.architecture")) {
        facts.architecture = *architecture;
        const auto context = header.unsigned_value(facts.architecture + ".context_length");
        if (context) facts.context_tokens = static_cast<std::int64_t>(*context);
    }
    for (const gguf::TensorInfo& tensor : header.tensors) {
        std::int64_t elements = 1;
        for (const std::uint64_t extent : tensor.dims) {
            elements *= static_cast<std::int64_t>(extent);  // checked when the header was read
        }
        facts.parameters += elements;
    }
    return facts;
}

ApiSettings api_settings(const Config& config, const ModelFacts& facts, std::int64_t now_unix) {
    ApiSettings settings;
    settings.model_name = config.model_name;
    settings.model_path = config.model_path;
    settings.model = facts;
    settings.strict_model = config.strict_model;
    settings.queue_max = static_cast<std::size_t>(config.max_queue);
    settings.defaults.temperature = config.sampling.temperature;
    settings.defaults.top_p = config.sampling.top_p;
    settings.defaults.top_k = config.sampling.top_k;
    settings.defaults.min_p = config.sampling.min_p;
    settings.defaults.repeat_penalty = config.sampling.repeat_penalty;
    settings.defaults.thinking_budget = config.sampling.reasoning_budget_tokens;
    if (config.sampling.max_tokens > 0) settings.defaults.max_tokens = config.sampling.max_tokens;
    settings.log_prompts = config.log_prompts;
    settings.show_prompts = config.show_prompts;
    const EngineSettings& engine = config.engine_settings;
    for (const std::string& vector : engine.control_vectors) {
        settings.steering_names.push_back(vector.substr(0, vector.find('=')));
    }
    settings.cache.enabled = engine.conversation_cache_mib > 0 &&
                             engine.conversation_cache_slots > 0 && engine.prompt_cache > 0;
    settings.cache.floor_bytes =
        engine.conversation_cache_min_free_mib * static_cast<std::int64_t>(kMiB);
    settings.cache.hysteresis_bytes =
        engine.conv_pressure_hyst_mib * static_cast<std::int64_t>(kMiB);
    settings.cache.window_rows = static_cast<std::size_t>(config.monitor_cache_window);
    settings.template_date = config.template_date;
    settings.version = std::string(server_version());
    settings.created = now_unix;
    settings.expected_context = config.engine_settings.max_context;
    if (settings.expected_context == 0) {
        settings.expected_context = std::min(facts.context_tokens, kContextTokensOfItself);
    }
    return settings;
}

HttpSettings http_settings(const Config& config, std::vector<std::string> own_names) {
    HttpSettings settings;
    settings.host = config.host;
    settings.port = static_cast<std::uint16_t>(config.port);
    settings.limits.body_bytes_max = static_cast<std::size_t>(config.max_body_mib) * kMiB;
    settings.limits.connections_max = static_cast<std::size_t>(config.max_connections);
    settings.access.api_keys = config.api_keys;
    settings.access.allowed_hosts = config.allowed_hosts;
    settings.access.cors_origins = config.cors_origins;
    settings.access.listen_host = config.host;
    settings.access.own_names = std::move(own_names);
    return settings;
}

SupervisorConfig supervisor_config(const Config& config, std::int64_t server_pid) {
    const EngineSettings& engine = config.engine_settings;
    SupervisorConfig out;
    out.command.path = config.engine;
    std::vector<std::string>& arguments = out.command.arguments;
    add(arguments, "--model", config.model_path);
    add(arguments, "--max-context", std::to_string(engine.max_context));
    add(arguments, "--threads", std::to_string(engine.threads));
    add(arguments, "--kv", engine.kv);
    add(arguments, "--device", engine.device);
    add(arguments, "--kernels", engine.kernels);
    add(arguments, "--prompt-cache", std::to_string(engine.prompt_cache));
    add(arguments, "--prompt-cache-every", std::to_string(engine.prompt_cache_every));
    add(arguments, "--prompt-cache-root", std::to_string(engine.prompt_cache_root));
    if (engine.turn_token) add(arguments, "--turn-token", std::to_string(*engine.turn_token));
    add(arguments, "--conversation-cache-mib", std::to_string(engine.conversation_cache_mib));
    add(arguments, "--conversation-cache-slots", std::to_string(engine.conversation_cache_slots));
    if (engine.device_pool_mib) {
        add(arguments, "--device-pool", std::to_string(*engine.device_pool_mib));
    }
    add(arguments, "--conversation-cache-min-free-mib",
        std::to_string(engine.conversation_cache_min_free_mib));
    add(arguments, "--conv-pressure-ms", std::to_string(engine.conv_pressure_ms));
    add(arguments, "--conv-pressure-hyst-mib", std::to_string(engine.conv_pressure_hyst_mib));
    add(arguments, "--memory-limit-mib", std::to_string(engine.memory_limit_mib));
    for (const std::string& vector : engine.control_vectors) {
        add(arguments, "--control-vector", vector);
    }
    if (engine.exact) arguments.emplace_back("--exact");
    add(arguments, "--parent-pid", std::to_string(server_pid));
    out.preparation.before_load = config.load.before_load;
    out.preparation.before_load_limit = std::chrono::seconds(config.load.before_load_timeout_s);
    out.preparation.min_free_vram_mib = config.load.min_free_vram_mib;
    out.idle_unload = std::chrono::seconds(config.load.idle_unload);
    out.desk.queue_max = static_cast<std::size_t>(config.max_queue);
    out.desk.start_wait = std::chrono::seconds(config.start_deadline_s);
    return out;
}

}  // namespace strata::serve
