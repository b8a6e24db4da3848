// What the api room is told by the configuration; values only, checked by serve/config.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "serve/monitor/metrics_json_parts.hpp"

namespace strata::serve {

// What a request gets when it does not say.
struct RequestDefaults {
    double temperature = 0.0;
    double top_p = 1.0;
    std::int64_t top_k = 0;  // 0 = off
    double min_p = 0.0;
    double repeat_penalty = 1.0;
    std::optional<std::int64_t> max_tokens;       // none = the room left in the context
    std::optional<std::int64_t> thinking_budget;  // tokens; none = thinking ends by itself
};

// Facts of the model file.
struct ModelFacts {
    std::string architecture;
    std::int64_t context_tokens = 0;  // that it was trained for
    std::int64_t parameters = 0;
    std::int64_t file_bytes = 0;
};

struct ApiSettings {
    std::string model_name;  // the id of /v1/models
    std::string model_path;
    ModelFacts model;
    bool strict_model = false;   // another model name is a 404
    std::size_t queue_max = 64;  // requests that wait for the engine
    RequestDefaults defaults;
    bool log_prompts = false;   // keep prompt and answer for the log
    bool show_prompts = false;  // /metrics and /cache have a conversation's first words
    std::vector<std::string> steering_names;  // modes that a request may name
    CacheAsked cache;           // what was asked of the engine, and the Monitor's window
    std::string template_date;  // strftime_now's day; "" = today
    std::string version;        // of the server
    // Of the engine as it will be started: what requests are measured by before one was ready.
    std::int64_t expected_context = 0;  // tokens
    std::int64_t created = 0;           // unix seconds: the server's start, /v1/models' `created`
};

}  // namespace strata::serve
