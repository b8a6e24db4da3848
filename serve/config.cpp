#include "serve/config.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <utility>

#include <boost/json.hpp>

#include "serve/api/json_scan.hpp"
#include "serve/model_lookup.hpp"
#include "serve/options.hpp"
#include "strata/core/closest.hpp"

namespace strata::serve {
namespace {

namespace fs = std::filesystem;
namespace json = boost::json;

constexpr std::size_t kSettingsBytesMax = 1U << 20;  // a settings file is a page of text
constexpr std::size_t kSettingsDepthMax = 8;         // of lists and objects; options need two

constexpr std::size_t kKeysOfFileMax = 1000;  // each is compared for every request

struct Given {
    const Option* option;
    RawValue value;
    std::string shown;   // as the user wrote it
    std::string source;  // "flag --port", "environment STRATA_PORT", "strata-x.json"
};

struct CommandLine {
    std::vector<Given> given;
    Action action = Action::serve;
    std::string help_word;
};

std::string nearest_flag(std::string_view unknown) {
    std::vector<std::string> names{"help", "version", "show-config"};
    for (const auto& option : option_table()) names.emplace_back(option.flag);
    return "--" + by_closeness(unknown, std::move(names)).front();
}

std::string nearest_key(std::string_view unknown) {
    std::vector<std::string> names;
    for (const auto& option : option_table()) {
        if (option.from_file) names.push_back(option.key());
    }
    return by_closeness(unknown, std::move(names)).front();
}

// Collects the values of a repeatable option that came before into one list.
void add_flag(std::vector<Given>& given, const Option& option, const std::string& value) {
    const std::string source = "flag --" + std::string(option.flag);
    if (option.repeatable) {
        for (auto& before : given) {
            if (before.option == &option) {
                std::get<std::vector<std::string>>(before.value).push_back(value);
                return;
            }
        }
        given.push_back({&option, std::vector<std::string>{value}, value, source});
        return;
    }
    given.push_back({&option, value, value, source});
}

Result<CommandLine> read_flags(std::span<const char* const> argv) {
    CommandLine line;
    for (std::size_t i = 1; i < argv.size(); ++i) {
        const std::string argument = argv[i];
        if (!argument.starts_with("--")) {
            return refuse("unexpected argument '" + argument + "': options begin with --");
        }
        const std::size_t equals = argument.find('=');
        const std::string flag =
            argument.substr(2, equals == std::string::npos ? equals : equals - 2);
        if (flag == "help") {
            line.action = Action::help;
            const bool has_word = i + 1 < argv.size() && argv[i + 1][0] != '-';
            if (has_word) line.help_word = argv[++i];
            continue;
        }
        if (flag == "version" || flag == "show-config") {
            line.action = flag == "version" ? Action::version : Action::show_config;
            continue;
        }
        const Option* option = find_option_by_flag(flag);
        if (option == nullptr) {
            return refuse("unknown option --" + flag + "; did you mean " + nearest_flag(flag) +
                          "?");
        }
        if (equals != std::string::npos) {
            add_flag(line.given, *option, argument.substr(equals + 1));
        } else if (option->argument.empty()) {
            add_flag(line.given, *option, "true");
        } else if (i + 1 < argv.size()) {
            add_flag(line.given, *option, argv[++i]);
        } else {
            return refuse("--" + flag + " needs a value: " + std::string(option->argument));
        }
    }
    return line;
}

std::optional<std::string> environment(const std::string& name) {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == '\0') return std::nullopt;
    return std::string(value);
}

std::vector<Given> read_environment() {
    std::vector<Given> given;
    for (const auto& option : option_table()) {
        const std::string name = option.environment_name();
        if (const auto value = environment(name)) {
            given.push_back({&option, *value, *value, "environment " + name});
        }
    }
    return given;
}

std::optional<RawValue> raw_of(const json::value& value) {
    switch (value.kind()) {
        case json::kind::bool_:
            return RawValue(value.get_bool());
        case json::kind::int64:
            return RawValue(value.get_int64());
        case json::kind::uint64:
            return RawValue(static_cast<double>(value.get_uint64()));
        case json::kind::double_:
            return RawValue(value.get_double());
        case json::kind::string:
            return RawValue(std::string(value.get_string()));
        case json::kind::array: {
            std::vector<std::string> texts;
            for (const auto& element : value.get_array()) {
                if (!element.is_string()) return std::nullopt;
                texts.emplace_back(element.get_string());
            }
            return RawValue(std::move(texts));
        }
        case json::kind::object:
        case json::kind::null:
            break;
    }
    return std::nullopt;
}

// In JSON a number is a number: "20" in quotes is refused where a number belongs.
bool text_for_number(const Option& option, const json::value& value) {
    const bool numeric =
        option.argument == "N" || option.argument == "X" || option.argument == "ID";
    const bool boolean = option.argument.empty();
    return (numeric || boolean) && value.is_string();
}

Result<std::vector<Given>> read_settings(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::string body(std::istreambuf_iterator<char>(file), {});
    if (!file.good() && body.empty()) return refuse("cannot read the settings file '" + path + "'");
    if (body.size() > kSettingsBytesMax) {
        return refuse("the settings file '" + path + "' has " + std::to_string(body.size()) +
                      " bytes, allowed are " + std::to_string(kSettingsBytesMax));
    }
    if (const auto fault = find_json_fault(body, kSettingsDepthMax)) {
        const bool twice = fault->kind == JsonFaultKind::repeated_key;
        return refuse("the settings file '" + path + "' " +
                      (twice ? "is ambiguous: " : "is not JSON: ") + fault->text);
    }
    const json::value document = json::parse(body);
    if (!document.is_object()) return refuse("the settings file '" + path + "' is not an object");
    std::vector<Given> given;
    const std::string source = fs::path(path).filename().string();
    for (const auto& [key, value] : document.get_object()) {
        const std::string name(key);
        const Option* option = find_option_by_key(name);
        if (option == nullptr || !option->from_file) {
            return refuse("unknown key \"" + name + "\" in " + source + "; did you mean \"" +
                          nearest_key(name) + "\"?");
        }
        if (value.is_null()) continue;  // counts as absent
        auto raw = raw_of(value);
        if (!raw || text_for_number(*option, value)) raw = RawValue{};
        given.push_back({option, std::move(*raw), json_text(value), source});
    }
    return given;
}

Status<> apply(Configuration& out, const std::vector<Given>& given) {
    for (const auto& [option, value, shown, source] : given) {
        const auto stored = option->store(out.config, value);
        if (!stored) {
            const std::string bad = option->secret ? "(hidden)" : shown;
            return refuse(option->key() + " = " + bad + " (" + source +
                          ") is not allowed; allowed: " + stored.error().text);
        }
        out.sources[option->key()] = source;
    }
    return Done{};
}

std::string user_folder() {
    if (const auto folder = environment("XDG_CONFIG_HOME")) return *folder + "/strata";
    if (const auto home = environment("HOME")) return *home + "/.config/strata";
    return "";
}

// Programs and the demo model lie beside the running binary in a build tree, and under ../share
// once installed.
fs::path own_folder() {
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    return error ? fs::path(".") : self.parent_path();
}

std::string demo_file() {
    const fs::path installed = own_folder() / "../share/strata/strata-demo-q8_0.gguf";
    std::error_code error;
    if (fs::exists(installed, error)) return installed.string();
    return STRATA_DEMO_MODEL;
}

Status<> locate_model(Configuration& out, std::vector<Given>& settings) {
    std::vector<std::string> folders{"."};
    if (!out.config.models_dir.empty()) folders.push_back(out.config.models_dir);
    if (const auto folder = user_folder(); !folder.empty()) folders.push_back(folder);
    const auto location = find_model(out.config.model, folders, demo_file());
    if (!location) return location.failure();
    out.config.model_name = location->name;
    out.config.model_path = location->gguf;
    if (location->settings.empty()) return Done{};
    auto given = read_settings(location->settings);
    if (!given) return given.failure();
    for (auto it = given->begin(); it != given->end(); ++it) {
        if (it->option->key() != "model") continue;
        const auto* file = std::get_if<std::string>(&it->value);
        if (file == nullptr)
            return refuse("model = " + it->shown + " (" + it->source + ") is not a path");
        out.config.model_path = (fs::path(location->settings).parent_path() / *file).string();
        given->erase(it);
        break;
    }
    if (out.config.model_path.empty()) {
        return refuse("the settings file '" + location->settings + "' names no \"model\" file");
    }
    settings = std::move(*given);
    return Done{};
}

// What must exist before anything starts: a missing piece is one line now, not a server without
// one.
Status<> check_files(const Config& config) {
    std::error_code error;
    if (!fs::is_regular_file(config.model_path, error)) {
        return refuse(no_model_file_text(config.model_path));
    }
    constexpr auto kRunnable =
        fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
    const auto engine = fs::status(config.engine, error);
    if (!fs::is_regular_file(engine) || (engine.permissions() & kRunnable) == fs::perms::none) {
        return refuse("engine = " + config.engine +
                      " is not allowed; allowed: a program (strata-engine)");
    }
    if (!config.ui_dir.empty() &&
        !fs::is_regular_file(fs::path(config.ui_dir) / "index.html", error)) {
        return refuse("ui_dir = " + config.ui_dir +
                      " is not allowed; allowed: a folder with the page's index.html");
    }
    return Done{};
}

// The keys of the file beside the given ones. A file that others may read keeps no secret.
Status<> read_key_file(Config& config) {
    if (config.api_key_file.empty()) return Done{};
    const std::string name = "api_key_file = " + config.api_key_file;
    std::error_code error;
    const fs::perms mode = fs::status(config.api_key_file, error).permissions();
    constexpr fs::perms kOthers = fs::perms::group_all | fs::perms::others_all;
    std::ifstream file(config.api_key_file);
    if (error || !file) return refuse(name + " cannot be read");
    if ((mode & kOthers) != fs::perms::none) {
        return refuse(name + " may be read by others; `chmod 600` it");
    }
    const std::size_t before = config.api_keys.size();
    for (std::string line; std::getline(file, line);) {
        while (line.ends_with('\r') || line.ends_with(' ')) line.pop_back();
        if (line.empty() || line.starts_with('#')) continue;
        if (line.size() < kKeyCharsMin || config.api_keys.size() - before == kKeysOfFileMax) {
            return refuse(name + " is not allowed; allowed: at most " +
                          std::to_string(kKeysOfFileMax) + " lines of at least " +
                          std::to_string(kKeyCharsMin) + " characters");
        }
        config.api_keys.push_back(line);
    }
    if (config.api_keys.size() == before) return refuse(name + " has no key in it");
    return Done{};
}

}  // namespace

Result<Configuration> read_configuration(std::span<const char* const> argv) {
    auto line = read_flags(argv);
    if (!line) return line.failure();
    Configuration out;
    out.action = line->action;
    out.help_word = line->help_word;
    if (out.action == Action::help || out.action == Action::version) return out;

    const auto from_environment = read_environment();
    // Once for the model's name and folders, which say where the settings are; once more in full
    // order.
    Configuration first;
    for (const auto* layer : {&from_environment, &std::as_const(line->given)}) {
        if (const auto applied = apply(first, *layer); !applied) return applied.failure();
    }
    if (first.config.model.empty()) {
        return refuse("which model? --model demo, --model FILE.gguf or --model NAME");
    }
    std::vector<Given> settings;
    if (const auto located = locate_model(first, settings); !located) return located.failure();
    out.config.model_path = first.config.model_path;
    out.config.model_name = first.config.model_name;
    out.config.engine = (own_folder() / "strata-engine").string();
    for (const auto* layer :
         {&std::as_const(settings), &from_environment, &std::as_const(line->given)}) {
        if (const auto applied = apply(out, *layer); !applied) return applied.failure();
    }
    if (const auto checked = check_files(out.config); !checked) return checked.failure();
    if (const auto keys = read_key_file(out.config); !keys) return keys.failure();
    return out;
}

std::string show_configuration(const Configuration& configuration) {
    std::string out;
    for (const auto& option : option_table()) {
        const auto source = configuration.sources.find(option.key());
        std::string value = option.show(configuration.config);
        if (option.secret && !value.empty()) value = "(hidden)";
        if (value.empty()) value = "(none)";
        out += option.key() + " = " + value + "  (" +
               (source == configuration.sources.end() ? "default" : source->second) + ")\n";
    }
    return out + "model file = " + configuration.config.model_path + "\n";
}

}  // namespace strata::serve
