// From the configuration to what each room is told; values only, so that main.cpp is a list of
// parts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/gguf/gguf.hpp"
#include "serve/api/settings.hpp"
#include "serve/config.hpp"
#include "serve/http/settings.hpp"
#include "serve/supervisor/engine_supervisor.hpp"

namespace strata::serve {

std::string_view server_version();

ModelFacts model_facts(const gguf::Header& header, std::int64_t file_bytes);
ApiSettings api_settings(const Config& config, const ModelFacts& facts, std::int64_t now_unix);
HttpSettings http_settings(const Config& config, std::vector<std::string> own_names);
// `server_pid`: the engine leaves when its parent is another process.
SupervisorConfig supervisor_config(const Config& config, std::int64_t server_pid);

}  // namespace strata::serve
