// The server's one door for configuration: flags over environment (STRATA_...) over
// strata-<model>.json over defaults become one validated struct before anything starts. Owns
// look-up of the model's name.
//
// Invariants: 1. every value of Config was checked against the option table; 2. the source of each
// value is known; 3. nothing outside this file reads the environment or a configuration file.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/result.hpp"

namespace strata::serve {

enum class LogFormat : std::uint8_t { text, json };

// What the engine is started with; passed on as its own flags, checked there again.
struct EngineSettings {
    std::int64_t max_context = 0;  // tokens; 0 = what the model says, at most 32768
    std::int64_t threads = 0;      // 0 = all cores
    std::string kv = "f16";
    std::string device = "auto";
    std::string kernels = "auto";
    std::int64_t prompt_cache = 6;            // checkpoints
    std::int64_t prompt_cache_every = 16384;  // tokens
    std::int64_t prompt_cache_root = 2048;    // tokens
    std::optional<std::int64_t> turn_token;
    std::int64_t conversation_cache_mib = 0;  // 0 = off
    std::int64_t conversation_cache_slots = 4;
    std::optional<std::int64_t> device_pool_mib;  // none = what is free
    std::int64_t conversation_cache_min_free_mib = 2560;
    std::int64_t conv_pressure_ms = 2000;
    std::int64_t conv_pressure_hyst_mib = 1024;
    std::int64_t memory_limit_mib = 0;         // 0 = none
    std::vector<std::string> control_vectors;  // NAME=FILE[:SCALE]
    bool exact = false;
};

// What a request gets when it does not say.
struct SamplingDefaults {
    double temperature = 0.0;
    double top_p = 1.0;
    std::int64_t top_k = 0;  // 0 = off
    double min_p = 0.0;
    double repeat_penalty = 1.0;
    std::int64_t max_tokens = 0;                          // 0 = the room left in the context
    std::optional<std::int64_t> reasoning_budget_tokens;  // none = thinking ends by itself
};

// When the engine comes and goes.
struct LoadSettings {
    bool lazy = false;             // the first request starts it
    std::int64_t idle_unload = 0;  // seconds without a request; 0 = it stays
    std::string before_load;       // a line for /bin/sh; "" = none
    std::int64_t before_load_timeout_s = 60;
    std::int64_t min_free_vram_mib = 0;  // 0 = not looked at
};

struct Config {
    // Model
    std::string model;       // as the user named it
    std::string model_path;  // the GGUF file
    std::string model_name;  // the id that /v1/models shows
    std::string models_dir;
    std::string engine;  // path of strata-engine
    bool strict_model = false;
    // Server
    std::string host = "127.0.0.1";
    std::int64_t port = 8080;  // 0 = any free one
    std::int64_t max_body_mib = 64;
    std::int64_t max_connections = 4096;
    std::int64_t max_queue = 64;
    std::int64_t start_deadline_s = 30;  // how long a request waits for an engine to be ready
    std::string ui_dir;                  // serve the page from disk; "" = the embedded one
    EngineSettings engine_settings;
    LoadSettings load;
    SamplingDefaults sampling;
    std::string template_date;  // strftime_now's day, "" = today
    // Access
    std::vector<std::string> api_keys;  // with those of the file
    std::string api_key_file;
    std::vector<std::string> allowed_hosts;
    std::vector<std::string> cors_origins;
    // Logging
    LogFormat log_format = LogFormat::text;
    bool log_prompts = false;
    // Monitor
    bool show_prompts = false;               // it shows the first words of conversations
    std::int64_t monitor_cache_window = 20;  // requests that its cache figures are about
};

// What the command line asks for besides serving.
enum class Action : std::uint8_t { serve, help, version, show_config };

struct Configuration {
    Config config;
    Action action = Action::serve;
    std::string help_word;  // --help WORD
    std::map<std::string, std::string>
        sources;  // option key -> flag, environment, file name, default
};

// Reads argv, the environment and the files. A refusal is one line for the user; exit status 2.
Result<Configuration> read_configuration(std::span<const char* const> argv);

// --show-config: one line per option, value and source; keys are hidden.
std::string show_configuration(const Configuration& configuration);

}  // namespace strata::serve
