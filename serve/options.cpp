// The rows of the option table and the three kinds of checks they are made of.
#include "serve/options.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include <boost/asio/ip/address.hpp>

namespace strata::serve {
namespace {

constexpr std::int64_t kContextTokensMax = 4'194'304;  // far above any model's trained context
constexpr std::int64_t kCheckpointsMax = 1024;
constexpr std::int64_t kMemoryMibMax = 1 << 24;  // these three, too
constexpr std::int64_t kParkedMax = 4096;
constexpr std::int64_t kPressureMsMax = 3'600'000;
constexpr std::int64_t kMonitorRowsMax = 500;  // what the server remembers of finished requests
constexpr std::int64_t kIdleSecondsMax = 31'536'000;  // a year: longer is never
constexpr std::int64_t kCommandSecondsMax = 3600;
constexpr std::int64_t kThreadsMax = 512;         // the engine's own limit
constexpr std::int64_t kConnectionsMax = 65'536;  // file descriptors of one process
constexpr std::int64_t kBodyMibMax = 1024;

std::string number_text(double value) {
    std::array<char, 32> out{};
    const auto end = std::to_chars(out.data(), out.data() + out.size(), value).ptr;
    return {out.data(), end};
}

// All of `text` as a number.
template <class Number>
std::optional<Number> parsed_whole(const std::string& text) {
    Number value = 0;
    const char* end = text.data() + text.size();
    const auto parsed = std::from_chars(text.data(), end, value);
    if (parsed.ec != std::errc{} || parsed.ptr != end || text.empty()) return std::nullopt;
    return value;
}

std::optional<std::int64_t> whole_of(double real) {
    constexpr double kExactMax = 9007199254740992.0;  // 2^53: whole doubles are exact below
    if (std::floor(real) != real || !(std::fabs(real) < kExactMax)) return std::nullopt;
    return static_cast<std::int64_t>(real);
}

// A flag says a number as JSON does: 20.0 is 20.
std::optional<std::int64_t> as_integer(const RawValue& raw) {
    if (const auto* number = std::get_if<std::int64_t>(&raw)) return *number;
    if (const auto* real = std::get_if<double>(&raw)) return whole_of(*real);
    const auto* text = std::get_if<std::string>(&raw);
    if (text == nullptr) return std::nullopt;
    if (const auto value = parsed_whole<std::int64_t>(*text)) return value;
    const auto real = parsed_whole<double>(*text);
    return real ? whole_of(*real) : std::nullopt;
}

std::optional<double> as_real(const RawValue& raw) {
    if (const auto* number = std::get_if<std::int64_t>(&raw)) return static_cast<double>(*number);
    if (const auto* real = std::get_if<double>(&raw)) return *real;
    const auto* text = std::get_if<std::string>(&raw);
    return text == nullptr ? std::nullopt : parsed_whole<double>(*text);
}

std::optional<bool> as_bool(const RawValue& raw) {
    if (const auto* value = std::get_if<bool>(&raw)) return *value;
    const auto* text = std::get_if<std::string>(&raw);
    if (text == nullptr) return std::nullopt;
    if (*text == "true" || *text == "1" || *text == "on") return true;
    if (*text == "false" || *text == "0" || *text == "off") return false;
    return std::nullopt;
}

using Integers = std::int64_t& (*)(Config&);
using Reals = double& (*)(Config&);
using Texts = std::string& (*)(Config&);
using Switches = bool& (*)(Config&);
using Lists = std::vector<std::string>& (*)(Config&);

// A field of a const Config through the same accessor: reading it changes nothing.
template <class Access>
auto& field(const Config& config, Access access) {
    return access(const_cast<Config&>(config));
}

Option integer(std::string_view flag, OptionGroup group, std::string_view help, std::int64_t low,
               std::int64_t high, Integers access) {
    Option option{flag, group, "N", help, {}, {}};
    option.store = [=](Config& config, const RawValue& raw) -> Status<> {
        const auto value = as_integer(raw);
        if (!value || *value < low || *value > high) {
            return refuse("a whole number from " + std::to_string(low) + " to " +
                          std::to_string(high));
        }
        access(config) = *value;
        return Done{};
    };
    option.show = [=](const Config& config) { return std::to_string(field(config, access)); };
    return option;
}

Option real(std::string_view flag, OptionGroup group, std::string_view help, double low,
            double high, bool low_included, Reals access) {
    Option option{flag, group, "X", help, {}, {}};
    option.store = [=](Config& config, const RawValue& raw) -> Status<> {
        const auto value = as_real(raw);
        const bool good = value && std::isfinite(*value) && *value <= high &&
                          (low_included ? *value >= low : *value > low);
        if (!good) {
            return refuse(std::string("a number ") + (low_included ? "from " : "above ") +
                          number_text(low) + (low_included ? " to " : ", at most ") +
                          number_text(high));
        }
        access(config) = *value;
        return Done{};
    };
    option.show = [=](const Config& config) { return number_text(field(config, access)); };
    return option;
}

Option text(std::string_view flag, OptionGroup group, std::string_view argument,
            std::string_view help, Texts access) {
    Option option{flag, group, argument, help, {}, {}};
    option.store = [=](Config& config, const RawValue& raw) -> Status<> {
        const auto* value = std::get_if<std::string>(&raw);
        if (value == nullptr || value->empty()) return refuse("a text that is not empty");
        access(config) = *value;
        return Done{};
    };
    option.show = [=](const Config& config) { return field(config, access); };
    return option;
}

Option choice(std::string_view flag, OptionGroup group, std::string_view argument,
              std::string_view help, std::vector<std::string> allowed, Texts access) {
    Option option = text(flag, group, argument, help, access);
    option.store = [access, allowed = std::move(allowed)](Config& config,
                                                          const RawValue& raw) -> Status<> {
        const auto* value = std::get_if<std::string>(&raw);
        if (value != nullptr &&
            std::find(allowed.begin(), allowed.end(), *value) != allowed.end()) {
            access(config) = *value;
            return Done{};
        }
        std::string words;
        for (const auto& word : allowed) words += (words.empty() ? "" : ", ") + word;
        return refuse(words);
    };
    return option;
}

// Whether there is such a device, the engine says.
Option device_row() {
    const auto access = [](Config& c) -> std::string& { return c.engine_settings.device; };
    Option option = text("device", OptionGroup::engine, "auto|cpu|cuda[:N]",
                         "what computes; auto is the first GPU, or the CPU", access);
    option.store = [access](Config& config, const RawValue& raw) -> Status<> {
        constexpr std::string_view kNumbered = "cuda:";
        const auto* value = std::get_if<std::string>(&raw);
        if (value == nullptr) return refuse("auto, cpu, cuda, cuda:N");
        bool known = *value == "auto" || *value == "cpu" || *value == "cuda";
        if (value->rfind(kNumbered, 0) == 0) {
            const std::string_view number = std::string_view(*value).substr(kNumbered.size());
            known = !number.empty() && number.size() <= 2 &&
                    std::all_of(number.begin(), number.end(),
                                [](char c) { return c >= '0' && c <= '9'; });
        }
        if (!known) return refuse("auto, cpu, cuda, cuda:N");
        access(config) = *value;
        return Done{};
    };
    return option;
}

Option toggle(std::string_view flag, OptionGroup group, std::string_view help, Switches access) {
    Option option{flag, group, "", help, {}, {}};
    option.store = [=](Config& config, const RawValue& raw) -> Status<> {
        const auto value = as_bool(raw);
        if (!value) return refuse("true or false");
        access(config) = *value;
        return Done{};
    };
    option.show = [=](const Config& config) {
        return std::string(field(config, access) ? "true" : "false");
    };
    return option;
}

// A list: a repeated flag, a comma list in the environment, an array in the file.
Option list(std::string_view flag, OptionGroup group, std::string_view argument,
            std::string_view help, std::size_t chars_min, Lists access) {
    Option option{flag, group, argument, help, {}, {}};
    option.repeatable = true;
    option.store = [=](Config& config, const RawValue& raw) -> Status<> {
        std::vector<std::string> values;
        if (const auto* many = std::get_if<std::vector<std::string>>(&raw)) {
            values = *many;
        } else if (const auto* one = std::get_if<std::string>(&raw)) {
            for (std::size_t at = 0; at <= one->size();) {
                const std::size_t comma = std::min(one->find(',', at), one->size());
                values.push_back(one->substr(at, comma - at));
                at = comma + 1;
            }
        } else {
            return refuse("a text or a list of texts");
        }
        for (const auto& value : values) {
            if (value.size() < chars_min) {
                return refuse("texts of at least " + std::to_string(chars_min) + " characters");
            }
        }
        access(config) = std::move(values);
        return Done{};
    };
    option.show = [=](const Config& config) {
        std::string all;
        for (const auto& value : field(config, access)) all += (all.empty() ? "" : ",") + value;
        return all;
    };
    return option;
}

// Absent is a value of its own: `none` in words.
template <class Access>
Option optional_integer(std::string_view flag, OptionGroup group, std::string_view argument,
                        std::string_view help, std::string_view allowed, std::string_view none,
                        Access access) {
    Option option{flag, group, argument, help, {}, {}};
    option.store = [=](Config& config, const RawValue& raw) -> Status<> {
        const auto value = as_integer(raw);
        if (!value || *value < 0 || *value > std::numeric_limits<std::int32_t>::max()) {
            return refuse(std::string(allowed));
        }
        access(config) = *value;
        return Done{};
    };
    option.show = [=](const Config& config) {
        const auto& value = field(config, access);
        return value ? std::to_string(*value) : std::string(none);
    };
    return option;
}

Option turn_token() {
    return optional_integer(
        "turn-token", OptionGroup::engine, "ID",
        "token that opens a turn (default: found in the vocabulary)", "a token id, 0 or more",
        "found in the vocabulary",
        [](Config & c) -> auto& { return c.engine_settings.turn_token; });
}

// A day of the calendar: the template would print whatever stands here.
bool is_date(const std::string& text) {
    if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
    const auto number = [&text](std::size_t at, std::size_t count) {
        int value = -1;
        const char* end = text.data() + at + count;
        return std::from_chars(text.data() + at, end, value).ptr == end ? value : -1;
    };
    const std::chrono::year_month_day day(std::chrono::year(number(0, 4)),
                                          std::chrono::month(static_cast<unsigned>(number(5, 2))),
                                          std::chrono::day(static_cast<unsigned>(number(8, 2))));
    return number(0, 4) >= 0 && number(5, 2) >= 0 && number(8, 2) >= 0 && day.ok();
}

Option template_date() {
    Option option{"template-date",
                  OptionGroup::sampling,
                  "YYYY-MM-DD",
                  "the day that chat templates see",
                  {},
                  {}};
    option.store = [](Config& config, const RawValue& raw) -> Status<> {
        const auto* value = std::get_if<std::string>(&raw);
        if (value == nullptr || !is_date(*value)) {
            return refuse("a day that exists, as YYYY-MM-DD");
        }
        config.template_date = *value;
        return Done{};
    };
    option.show = [](const Config& config) {
        return config.template_date.empty() ? std::string("today") : config.template_date;
    };
    return option;
}

Option host() {
    Option option = text("host", OptionGroup::server, "ADDRESS", "address to listen on",
                         [](Config& c) -> std::string& { return c.host; });
    option.store = [](Config& config, const RawValue& raw) -> Status<> {
        const auto* value = std::get_if<std::string>(&raw);
        boost::system::error_code error;
        if (value != nullptr) boost::asio::ip::make_address(*value, error);
        if (value == nullptr || (error && *value != "localhost")) {
            return refuse("an IP address of this machine, localhost, 0.0.0.0 or ::");
        }
        config.host = *value;
        return Done{};
    };
    return option;
}

Option log_format() {
    Option option{
        "log-format", OptionGroup::logging, "text|json", "form of the log on stderr", {}, {}};
    option.store = [](Config& config, const RawValue& raw) -> Status<> {
        const auto* value = std::get_if<std::string>(&raw);
        if (value == nullptr || (*value != "text" && *value != "json")) return refuse("text, json");
        config.log_format = *value == "json" ? LogFormat::json : LogFormat::text;
        return Done{};
    };
    option.show = [](const Config& config) {
        return std::string(config.log_format == LogFormat::json ? "json" : "text");
    };
    return option;
}

std::vector<Option> model_options() {
    using G = OptionGroup;
    std::vector<Option> rows;
    rows.push_back(text("model", G::model, "NAME|FILE",
                        "demo; a .gguf file; or a name: strata-NAME.json or NAME.gguf",
                        [](Config& c) -> std::string& { return c.model; }));
    rows.push_back(text("models-dir", G::model, "DIR", "where names are looked up, too",
                        [](Config& c) -> std::string& { return c.models_dir; }));
    rows.back().from_file = false;
    rows.push_back(text("engine", G::model, "FILE", "the engine (default: beside strata-serve)",
                        [](Config& c) -> std::string& { return c.engine; }));
    rows.push_back(toggle("strict-model", G::model, "404 for a request that names another model",
                          [](Config& c) -> bool& { return c.strict_model; }));
    return rows;
}

std::vector<Option> server_options() {
    using G = OptionGroup;
    std::vector<Option> rows;
    rows.push_back(host());
    rows.push_back(integer("port", G::server, "port to listen on; 0 = any free one", 0, 65'535,
                           [](Config& c) -> std::int64_t& { return c.port; }));
    rows.push_back(integer("max-body-mib", G::server, "largest request body, MiB", 1, kBodyMibMax,
                           [](Config& c) -> std::int64_t& { return c.max_body_mib; }));
    rows.push_back(integer("max-connections", G::server, "most open connections", 1,
                           kConnectionsMax,
                           [](Config& c) -> std::int64_t& { return c.max_connections; }));
    rows.push_back(integer("max-queue", G::server, "most waiting requests; more get 429", 1, 4096,
                           [](Config& c) -> std::int64_t& { return c.max_queue; }));
    rows.push_back(integer("start-deadline-s", G::server,
                           "seconds a request waits for an engine that restarts", 1, 3600,
                           [](Config& c) -> std::int64_t& { return c.start_deadline_s; }));
    rows.push_back(text("ui-dir", G::server, "DIR", "serve the page from this folder",
                        [](Config& c) -> std::string& { return c.ui_dir; }));
    rows.push_back(list("api-key", G::access, "KEY", "ask for this key; may be given several times",
                        kKeyCharsMin,
                        [](Config& c) -> std::vector<std::string>& { return c.api_keys; }));
    rows.back().secret = true;
    rows.push_back(text("api-key-file", G::access, "FILE",
                        "more keys, one a line; readable by its owner alone",
                        [](Config& c) -> std::string& { return c.api_key_file; }));
    rows.push_back(list("allowed-host", G::access, "NAME",
                        "more names for the Host header: name, .example.com or *", 1,
                        [](Config& c) -> std::vector<std::string>& { return c.allowed_hosts; }));
    rows.push_back(list("cors-origin", G::access, "ORIGIN", "origins that browsers may call from",
                        1, [](Config& c) -> std::vector<std::string>& { return c.cors_origins; }));
    rows.push_back(log_format());
    rows.push_back(integer("monitor-cache-window", G::server,
                           "newest requests that the Monitor's cache figures are about", 1,
                           kMonitorRowsMax,
                           [](Config& c) -> std::int64_t& { return c.monitor_cache_window; }));
    rows.push_back(toggle("show-prompts", G::server,
                          "the Monitor shows the first words of conversations",
                          [](Config& c) -> bool& { return c.show_prompts; }));
    rows.push_back(toggle("log-prompts", G::logging, "write prompts and answers into the log",
                          [](Config& c) -> bool& { return c.log_prompts; }));
    return rows;
}

std::vector<Option> engine_options() {
    using G = OptionGroup;
    std::vector<Option> rows;
    rows.push_back(
        integer("max-context", G::engine,
                "tokens of one conversation; 0 = the model's, at most 32768", 0, kContextTokensMax,
                [](Config& c) -> std::int64_t& { return c.engine_settings.max_context; }));
    rows.push_back(integer("threads", G::engine, "CPU threads; 0 = one per core", 0, kThreadsMax,
                           [](Config& c) -> std::int64_t& { return c.engine_settings.threads; }));
    rows.push_back(choice("kv", G::engine, "f16|f32|int8", "form of keys and values",
                          {"f16", "f32", "int8"},
                          [](Config& c) -> std::string& { return c.engine_settings.kv; }));
    rows.push_back(device_row());
    rows.push_back(choice("kernels", G::engine, "NAME", "auto, scalar, avx2 or avx512",
                          {"auto", "scalar", "avx2", "avx512"},
                          [](Config& c) -> std::string& { return c.engine_settings.kernels; }));
    rows.push_back(
        integer("prompt-cache", G::engine, "checkpoints kept besides the tail; 0 = reuse nothing",
                0, kCheckpointsMax,
                [](Config& c) -> std::int64_t& { return c.engine_settings.prompt_cache; }));
    rows.push_back(
        integer("prompt-cache-every", G::engine, "tokens between interval checkpoints; 0 = none", 0,
                kContextTokensMax,
                [](Config& c) -> std::int64_t& { return c.engine_settings.prompt_cache_every; }));
    rows.push_back(
        integer("prompt-cache-root", G::engine, "smallest root with a checkpoint; 0 = none", 0,
                kContextTokensMax,
                [](Config& c) -> std::int64_t& { return c.engine_settings.prompt_cache_root; }));
    rows.push_back(turn_token());
    rows.push_back(list(
        "control-vector", G::engine, "NAME=FILE[:SCALE]",
        "a steering mode for requests; may be given several times", 1,
        [](Config& c) -> std::vector<std::string>& { return c.engine_settings.control_vectors; }));
    rows.push_back(toggle("exact", G::engine, "results do not depend on what is reused; slower",
                          [](Config& c) -> bool& { return c.engine_settings.exact; }));
    return rows;
}

template <std::int64_t EngineSettings::*Member>
Option cache_row(std::string_view name, std::string_view help, std::int64_t most) {
    return integer(name, OptionGroup::engine, help, 0, most,
                   [](Config& c) -> std::int64_t& { return c.engine_settings.*Member; });
}

std::vector<Option> conversation_cache_options() {
    using E = EngineSettings;
    std::vector<Option> rows;
    rows.push_back(cache_row<&E::conversation_cache_mib>(
        "conversation-cache-mib", "host RAM for parked conversations, MiB; 0 = none are parked",
        kMemoryMibMax));
    rows.push_back(cache_row<&E::conversation_cache_slots>(
        "conversation-cache-slots", "most parked conversations, beside the live one", kParkedMax));
    rows.push_back(optional_integer(
        "device-pool", OptionGroup::engine, "MIB",
        "most memory of a GPU in which parked conversations stay while nobody else needs it, MiB; "
        "0 = none stay (default: what is free)",
        "MiB, 0 or more", "what is free",
        [](Config & c) -> auto& { return c.engine_settings.device_pool_mib; }));
    rows.push_back(cache_row<&E::conversation_cache_min_free_mib>(
        "conversation-cache-min-free-mib",
        "the floor: with less RAM available, MiB, parked conversations go", kMemoryMibMax));
    rows.push_back(cache_row<&E::conv_pressure_ms>(
        "conv-pressure-ms", "time between two looks at the available RAM; 0 = before requests",
        kPressureMsMax));
    rows.push_back(cache_row<&E::conv_pressure_hyst_mib>(
        "conv-pressure-hyst-mib", "below the floor they go until this much more is available, MiB",
        kMemoryMibMax));
    rows.push_back(cache_row<&E::memory_limit_mib>(
        "memory-limit-mib", "RAM that the engine may use in all, MiB; 0 = no limit",
        kMemoryMibMax));
    return rows;
}

std::vector<Option> load_options() {
    using G = OptionGroup;
    std::vector<Option> rows;
    rows.push_back(toggle("lazy", G::server, "the first request loads the model, not the start",
                          [](Config& c) -> bool& { return c.load.lazy; }));
    rows.push_back(integer(
        "idle-unload", G::server, "seconds without a request after which the model goes; 0 = never",
        0, kIdleSecondsMax, [](Config& c) -> std::int64_t& { return c.load.idle_unload; }));
    rows.push_back(text("before-load", G::server, "COMMAND",
                        "a line for /bin/sh that runs before each load; status 0 = go on",
                        [](Config& c) -> std::string& { return c.load.before_load; }));
    rows.push_back(integer(
        "before-load-timeout-s", G::server, "seconds that it may take", 1, kCommandSecondsMax,
        [](Config& c) -> std::int64_t& { return c.load.before_load_timeout_s; }));
    rows.push_back(integer("min-free-vram-mib", G::server,
                           "a load needs a GPU with this much free memory, MiB; 0 = no look", 0,
                           kMemoryMibMax,
                           [](Config& c) -> std::int64_t& { return c.load.min_free_vram_mib; }));
    return rows;
}

std::vector<Option> sampling_options() {
    using G = OptionGroup;
    std::vector<Option> rows;
    rows.push_back(real("temperature", G::sampling, "0 = always the likeliest token", 0, 2, true,
                        [](Config& c) -> double& { return c.sampling.temperature; }));
    rows.push_back(real("top-p", G::sampling, "least probability mass to choose from", 0, 1, false,
                        [](Config& c) -> double& { return c.sampling.top_p; }));
    rows.push_back(integer("top-k", G::sampling, "most tokens to choose from; 0 = all", 0,
                           1'000'000, [](Config& c) -> std::int64_t& { return c.sampling.top_k; }));
    rows.push_back(real("min-p", G::sampling, "least share of the likeliest token's probability", 0,
                        1, true, [](Config& c) -> double& { return c.sampling.min_p; }));
    rows.push_back(real("repeat-penalty", G::sampling, "1 = none", 0, 10, false,
                        [](Config& c) -> double& { return c.sampling.repeat_penalty; }));
    rows.push_back(integer(
        "max-tokens", G::sampling, "tokens of an answer; 0 = the room left in the context", 0,
        kContextTokensMax, [](Config& c) -> std::int64_t& { return c.sampling.max_tokens; }));
    rows.push_back(optional_integer(
        "reasoning-budget-tokens", G::sampling, "N",
        "most tokens of thinking; 0 = none (default: the model decides)",
        "a whole number from 0 to 2147483647", "unlimited",
        [](Config & c) -> auto& { return c.sampling.reasoning_budget_tokens; }));
    rows.push_back(template_date());
    return rows;
}

std::vector<Option> make_table() {
    std::vector<Option> rows;
    for (auto* part : {&model_options, &server_options, &load_options, &engine_options,
                       &conversation_cache_options, &sampling_options}) {
        for (auto& option : part()) rows.push_back(std::move(option));
    }
    return rows;
}

}  // namespace

std::span<const Option> option_table() {
    static const std::vector<Option> table = make_table();
    return table;
}

}  // namespace strata::serve
