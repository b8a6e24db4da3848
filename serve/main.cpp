// strata-serve: configuration, then the model's text side, then the server.
//
// Exit status: 0 after SIGINT or SIGTERM, 1 when the port cannot be had, 2 a bad configuration, 3
// the model file is refused, 130 after a second signal.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <span>
#include <string>
#include <system_error>
#include <utility>

#include <sys/resource.h>
#include <unistd.h>

#include "protocol/gguf/gguf.hpp"
#include "serve/composition.hpp"
#include "serve/config.hpp"
#include "serve/log.hpp"
#include "serve/options.hpp"
#include "serve/running_server.hpp"

namespace {

using namespace strata;
using namespace strata::serve;

constexpr int kPortStatus = 1;
constexpr int kConfigurationStatus = 2;
constexpr int kModelStatus = 3;
constexpr rlim_t kOwnDescriptors = 128;  // beside the connections: pipes, timers, files

void print(const std::string& text) {
    std::fputs(text.c_str(), stdout);
}

int complain(const std::string& text, int status) {
    std::fputs(("strata-serve: " + text + "\n").c_str(), stderr);
    return status;
}

// Each connection is a descriptor, and shells allow 1,024 by default.
void allow_descriptors(std::int64_t connections) {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    const rlim_t wanted = static_cast<rlim_t>(connections) + kOwnDescriptors;
    if (limit.rlim_cur >= wanted) return;
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY ? wanted : std::min(wanted, limit.rlim_max);
    ::setrlimit(RLIMIT_NOFILE, &limit);
}

int serve_model(const Config& config) {
    const Result<gguf::Header> header = gguf::read_header(config.model_path);
    if (!header) return complain(config.model_path + ": " + header.error().text, kModelStatus);
    Result<TextModel> text = TextModel::from_header(*header);
    if (!text) return complain(config.model_path + ": " + text.error().text, kModelStatus);
    std::error_code code;
    const auto bytes = std::filesystem::file_size(config.model_path, code);
    const ModelFacts facts = model_facts(*header, code ? 0 : static_cast<std::int64_t>(bytes));
    allow_descriptors(config.max_connections);
    Log log(config.log_format, ::isatty(STDERR_FILENO) == 1);
    RunningServer server(config, facts, std::move(*text), log);
    const Status<> listening = server.listen();
    if (!listening) return complain(listening.error().text, kPortStatus);
    return server.run();
}

int run(int argc, char** argv) {
    const Result<Configuration> configuration =
        read_configuration(std::span<const char* const>(argv, static_cast<std::size_t>(argc)));
    if (!configuration) return complain(configuration.error().text, kConfigurationStatus);
    switch (configuration->action) {
        case Action::help:
            print(help_text(configuration->help_word));
            return 0;
        case Action::version:
            print("strata-serve " + std::string(server_version()) + "\n");
            return 0;
        case Action::show_config:
            print(show_configuration(*configuration));
            return 0;
        case Action::serve:
            return serve_model(configuration->config);
    }
    return kConfigurationStatus;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc, argv);
    } catch (const std::exception& fault) {
        return complain(std::string("unexpected: ") + fault.what(), 70);
    }
}
