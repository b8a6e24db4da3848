// See engine/options.hpp. The only file of the engine that reads the environment.
#include "engine/options.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

#include "strata/core/closest.hpp"
#include "strata/core/wrapped_text.hpp"

namespace strata {

namespace {

constexpr std::int64_t kContextTokensMax = 1 << 24;  // beyond any model; bounds later arithmetic
constexpr std::int64_t kThreadsMax = 512;            // more cores than one machine has
constexpr std::int64_t kCheckpointsMax = 1024;       // each may cost a running state of host memory
constexpr std::int64_t kChunkTokensMax = 8192;       // scratch memory grows with it
constexpr std::int64_t kChunkTimeMaxMs = 60'000;     // longer than any client waits for a STOP
constexpr std::int64_t kPidMax = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMemoryMibMax = 1 << 24;     // 16 TiB: beyond any machine
constexpr std::int64_t kParkedMax = 4096;           // each is looked at in every plan
constexpr std::int64_t kPressureMsMax = 3'600'000;  // an hour: less often is never
constexpr std::size_t kSteeringNameBytesMax = 32;   // as a label: it stands in CACHE lines
constexpr float kSteeringScaleMax = 1000;           // beyond any use; keeps products finite
constexpr std::size_t kControlVectorsMax = 64;      // each holds memory on the device
constexpr std::string_view kVersion = STRATA_VERSION;

OptionRow integer(std::string_view name, std::string_view argument, OptionGroup group,
                  std::string_view help, std::int64_t least, std::int64_t most,
                  std::int64_t EngineOptions::*member) {
    OptionRow row{name, argument, group, help, {}, {}, {}};
    row.allowed = std::to_string(least) + " to " + std::to_string(most);
    row.set = [=](EngineOptions& options, std::string_view value) {
        std::int64_t number = 0;
        const char* end = value.data() + value.size();
        const auto [stop, error] = std::from_chars(value.data(), end, number);
        if (error != std::errc{} || stop != end || number < least || number > most) return false;
        options.*member = number;
        return true;
    };
    row.show = [member](const EngineOptions& options) {
        return options.*member < 0 ? std::string() : std::to_string(options.*member);
    };
    return row;
}

template <class Enum>
struct Word {
    std::string_view text;
    Enum value;
};

template <class Enum>
OptionRow choice(std::string_view name, std::string_view argument, OptionGroup group,
                 std::string_view help, std::vector<Word<Enum>> words,
                 Enum EngineOptions::*member) {
    OptionRow row{name, argument, group, help, {}, {}, {}};
    for (const auto& word : words) {
        row.allowed += (row.allowed.empty() ? "" : ", ") + std::string(word.text);
    }
    row.set = [=](EngineOptions& options, std::string_view value) {
        for (const auto& word : words) {
            if (word.text != value) continue;
            options.*member = word.value;
            return true;
        }
        return false;
    };
    row.show = [=](const EngineOptions& options) {
        for (const auto& word : words) {
            if (word.value == options.*member) return std::string(word.text);
        }
        return std::string();
    };
    return row;
}

OptionRow path(std::string_view name, OptionGroup group, std::string_view help,
               std::string EngineOptions::*member) {
    OptionRow row{name, "FILE", group, help, {}, "a path", {}};
    row.set = [member](EngineOptions& options, std::string_view value) {
        options.*member = std::string(value);
        return !value.empty();
    };
    row.show = [](const EngineOptions&) { return std::string(); };
    return row;
}

OptionRow toggle(std::string_view name, OptionGroup group, std::string_view help,
                 bool EngineOptions::*member) {
    OptionRow row{name, "", group, help, {}, "no value", {}};
    row.set = [member](EngineOptions& options, std::string_view) {
        options.*member = true;
        return true;
    };
    row.show = [](const EngineOptions&) { return std::string(); };
    return row;
}

bool is_steering_name(std::string_view name) {
    constexpr std::string_view kReserved[] = {"off", "0"};  // both say "none" on the wire
    const bool allowed = std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.';
    });
    return allowed && !name.empty() && name.size() <= kSteeringNameBytesMax &&
           std::find(std::begin(kReserved), std::end(kReserved), name) == std::end(kReserved);
}

// NAME=FILE or NAME=FILE:SCALE; what follows the last colon is a scale when it reads as a number.
std::optional<ControlVector> parse_control_vector(std::string_view value) {
    const std::size_t equals = value.find('=');
    if (equals == std::string_view::npos) return std::nullopt;
    const std::string_view name = value.substr(0, equals);
    std::string_view file = value.substr(equals + 1);
    float scale = 1.0F;
    const std::size_t colon = file.rfind(':');
    if (colon != std::string_view::npos) {
        const char* end = file.data() + file.size();
        float number = 0;
        const auto [stop, error] = std::from_chars(file.data() + colon + 1, end, number);
        if (stop == end && colon + 1 < file.size()) {
            const bool in_range = error == std::errc{} && std::abs(number) <= kSteeringScaleMax;
            if (!in_range) return std::nullopt;
            scale = number;
            file = file.substr(0, colon);
        }
    }
    if (!is_steering_name(name) || file.empty()) return std::nullopt;
    return ControlVector{std::string(name), std::string(file), scale};
}

OptionRow control_vector_row() {
    OptionRow row{"--control-vector",
                  "NAME=FILE[:SCALE]",
                  OptionGroup::model,
                  "a way to steer, which requests ask for by its name: a GGUF file with a tensor "
                  "direction.N (F32) for each layer N that it is added behind, times SCALE; may be "
                  "given several times; SCALE is 1 unless given",
                  {},
                  "NAME of at most 32 letters, digits, _, - or ., not off or 0, each once; SCALE "
                  "within -1000 and 1000",
                  {}};
    row.set = [](EngineOptions& options, std::string_view value) {
        auto& all = options.control_vectors;
        auto one = parse_control_vector(value);
        const auto same = [&](const ControlVector& each) { return each.name == one->name; };
        if (!one || std::any_of(all.begin(), all.end(), same)) return false;
        all.push_back(*std::move(one));
        return all.size() <= kControlVectorsMax;
    };
    row.show = [](const EngineOptions&) { return std::string(); };
    return row;
}

OptionRow device_row() {
    OptionRow row{"--device",
                  "NAME",
                  OptionGroup::machine,
                  "what computes; auto is the first CUDA device, or the CPU where there is none",
                  {},
                  std::string(kDeviceWords),
                  {}};
    row.set = [](EngineOptions& options, std::string_view value) {
        const auto choice = parse_device(value);
        if (choice) options.device = *choice;
        return choice.has_value();
    };
    row.show = [](const EngineOptions& options) { return device_text(options.device); };
    return row;
}

std::vector<OptionRow> machine_rows() {
    using O = EngineOptions;
    const auto group = OptionGroup::machine;
    std::vector<OptionRow> rows;
    rows.push_back(device_row());
    rows.push_back(integer("--threads", "N", group, "threads that compute; 0 = one per core", 0,
                           kThreadsMax, &O::threads));
    rows.push_back(choice<KernelChoice>("--kernels", "NAME", group,
                                        "instruction set of the CPU kernels",
                                        {{"auto", KernelChoice::automatic},
                                         {"scalar", KernelChoice::scalar},
                                         {"avx2", KernelChoice::avx2},
                                         {"avx512", KernelChoice::avx512}},
                                        &O::kernels));
    rows.push_back(integer("--chunk-tokens", "N", group, "most prompt tokens of one forward pass",
                           1, kChunkTokensMax, &O::chunk_tokens));
    rows.push_back(integer("--chunk-ms", "MS", group,
                           "time of one forward pass, after which its size shrinks; a STOP waits "
                           "that long; 0 = the size never changes",
                           0, kChunkTimeMaxMs, &O::chunk_ms));
    rows.push_back(toggle("--exact", group,
                          "every result is the same bits however a prompt is cut into passes and "
                          "whatever of it was reused; slower",
                          &O::exact));
    return rows;
}

std::vector<OptionRow> prompt_rows() {
    using O = EngineOptions;
    const auto group = OptionGroup::prompt;
    std::vector<OptionRow> rows;
    rows.push_back(integer("--prompt-cache", "N", group,
                           "checkpoints kept besides the tail; 0 = nothing is reused", 0,
                           kCheckpointsMax, &O::prompt_cache));
    rows.push_back(integer("--prompt-cache-every", "N", group,
                           "freshly read tokens between two interval checkpoints; 0 = none", 0,
                           kContextTokensMax, &O::prompt_cache_every));
    rows.push_back(integer("--prompt-cache-root", "N", group,
                           "least tokens of a system prompt that gets a checkpoint; 0 = none", 0,
                           kContextTokensMax, &O::prompt_cache_root));
    rows.push_back(integer("--turn-token", "ID", group,
                           "id of the token that opens a turn; without it the vocabulary's own", 0,
                           std::numeric_limits<TokenId>::max(), &O::turn_token));
    return rows;
}

std::vector<OptionRow> conversation_rows() {
    using O = EngineOptions;
    const auto group = OptionGroup::conversations;
    std::vector<OptionRow> rows;
    rows.push_back(integer("--conversation-cache-mib", "MIB", group,
                           "host RAM for parked conversations; 0 = none are parked", 0,
                           kMemoryMibMax, &O::conversation_cache_mib));
    rows.push_back(integer("--conversation-cache-slots", "N", group,
                           "most parked conversations, beside the live one; 0 = none are parked", 0,
                           kParkedMax, &O::conversation_cache_slots));
    rows.push_back(integer("--device-pool", "MIB", group,
                           "most memory of a GPU in which parked conversations stay while nobody "
                           "else needs it; 0 = none stay",
                           0, kMemoryMibMax, &O::device_pool_mib));
    rows.push_back(integer("--conversation-cache-min-free-mib", "MIB", group,
                           "the floor: parked conversations are given back when less RAM than "
                           "this is available",
                           0, kMemoryMibMax, &O::conversation_cache_min_free_mib));
    rows.push_back(integer("--conv-pressure-ms", "MS", group,
                           "time between two looks at the available RAM; 0 = only before requests",
                           0, kPressureMsMax, &O::conv_pressure_ms));
    rows.push_back(integer("--conv-pressure-hyst-mib", "MIB", group,
                           "below the floor RAM is given back until this much more than the floor "
                           "is available",
                           0, kMemoryMibMax, &O::conv_pressure_hyst_mib));
    rows.push_back(integer("--memory-limit-mib", "MIB", group,
                           "RAM that the engine may use in all; what is left of it counts as "
                           "available; 0 = no limit",
                           0, kMemoryMibMax, &O::memory_limit_mib));
    rows.push_back(choice<bool>("--snapshot-verify", "0|1", group,
                                "compare each restored conversation with its snapshot, and end "
                                "the engine when a byte differs",
                                {{"0", false}, {"1", true}}, &O::snapshot_verify));
    rows.push_back(path("--host-memory-file", group,
                        "for tests: a file with the available MiB, read at each look in place of "
                        "the system",
                        &O::host_memory_file));
    return rows;
}

std::vector<OptionRow> make_table() {
    using O = EngineOptions;
    std::vector<OptionRow> rows;
    rows.push_back(path("--model", OptionGroup::model,
                        "the model file (GGUF; of a split model the first file)", &O::model_path));
    rows.push_back(integer("--max-context", "N", OptionGroup::model,
                           "tokens of one conversation; 0 = what the model was trained for, at "
                           "most 32768",
                           0, kContextTokensMax, &O::max_context));
    rows.push_back(choice<KvType>(
        "--kv", "TYPE", OptionGroup::model, "how keys and values are stored",
        {{"f16", KvType::f16}, {"f32", KvType::f32}, {"int8", KvType::int8}}, &O::kv));
    rows.push_back(control_vector_row());
    for (auto& row : machine_rows()) rows.push_back(std::move(row));
    for (auto& row : prompt_rows()) rows.push_back(std::move(row));
    for (auto& row : conversation_rows()) rows.push_back(std::move(row));
    rows.push_back(integer("--parent-pid", "PID", OptionGroup::process,
                           "leave when the parent is another process than this; 0 = never", 0,
                           kPidMax, &O::parent_pid));
    rows.push_back(
        toggle("--help", OptionGroup::process, "print this text and leave", &O::show_help));
    rows.push_back(
        toggle("--version", OptionGroup::process, "print the version and leave", &O::show_version));
    return rows;
}

const OptionRow* find_row(std::string_view name) {
    const auto& table = option_table();
    const auto row = std::find_if(table.begin(), table.end(),
                                  [name](const OptionRow& each) { return each.name == name; });
    return row == table.end() ? nullptr : &*row;
}

Failure<Refusal> unknown(std::string_view name) {
    std::vector<std::string> names;
    for (const OptionRow& row : option_table()) names.emplace_back(row.name);
    return refuse("unknown option " + std::string(name) + "; the closest is " +
                  by_closeness(name, std::move(names)).front() + " (--help lists all)");
}

Failure<Refusal> not_allowed(std::string_view name, std::string_view value, const OptionRow& row) {
    return refuse(std::string(name) + " is \"" + std::string(value) +
                  "\", allowed: " + row.allowed);
}

std::string_view title(OptionGroup group) {
    switch (group) {
        case OptionGroup::model:
            return "Model";
        case OptionGroup::machine:
            return "Machine";
        case OptionGroup::prompt:
            return "Prompt reuse";
        case OptionGroup::conversations:
            return "Conversation cache";
        case OptionGroup::process:
            return "Process";
    }
    return "";
}

}  // namespace

std::string OptionRow::environment_name() const {
    std::string out = "STRATA_";
    for (const char c : name.substr(2)) {
        out += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    return out;
}

const std::vector<OptionRow>& option_table() {
    static const std::vector<OptionRow> table = make_table();
    return table;
}

Environment process_environment() {
    return [](const std::string& name) -> std::optional<std::string> {
        const char* value = std::getenv(name.c_str());
        if (value == nullptr) return std::nullopt;
        return std::string(value);
    };
}

Result<EngineOptions> parse_options(std::span<const std::string_view> arguments,
                                    const Environment& environment) {
    EngineOptions options;
    std::vector<const OptionRow*> given;
    for (std::size_t i = 0; i < arguments.size(); ++i) {
        const std::string_view argument = arguments[i];
        const std::size_t equals = argument.find('=');
        const std::string_view name = argument.substr(0, equals);
        const OptionRow* row = find_row(name);
        if (row == nullptr) return unknown(name);
        std::string_view value;
        if (equals != std::string_view::npos) {
            value = argument.substr(equals + 1);
            if (row->argument.empty()) return not_allowed(name, value, *row);
        } else if (!row->argument.empty()) {
            if (i + 1 == arguments.size()) {
                return refuse(std::string(name) + " needs a value, allowed: " + row->allowed);
            }
            value = arguments[++i];
        }
        if (!row->set(options, value)) return not_allowed(name, value, *row);
        given.push_back(row);
    }
    if (options.show_help || options.show_version) return options;
    for (const OptionRow& row : option_table()) {
        const bool by_flag = std::find(given.begin(), given.end(), &row) != given.end();
        if (by_flag || row.argument.empty()) continue;
        const auto value = environment(row.environment_name());
        if (value && !row.set(options, *value)) {
            return not_allowed(row.environment_name(), *value, row);
        }
    }
    if (options.model_path.empty()) {
        return refuse("--model is not set, allowed: a path to a GGUF file");
    }
    return options;
}

std::string help_text() {
    std::string out =
        "strata-engine: one language model behind a line protocol on stdin and stdout.\n"
        "Usage: strata-engine --model FILE [options]\n";
    constexpr std::array kGroups{OptionGroup::model, OptionGroup::machine, OptionGroup::prompt,
                                 OptionGroup::conversations, OptionGroup::process};
    for (const OptionGroup group : kGroups) {
        out += "\n" + std::string(title(group)) + ":\n";
        for (const OptionRow& row : option_table()) {
            if (row.group != group) continue;
            out += "  " + std::string(row.name);
            if (!row.argument.empty()) out += " " + std::string(row.argument);
            out += "\n";
            std::string body(row.help);
            if (!row.argument.empty()) {
                const std::string preset = row.show(EngineOptions{});
                body += "; allowed: " + row.allowed;
                if (!preset.empty()) body += "; default " + preset;
                body += " (" + row.environment_name() + ")";
            }
            out += wrapped(body);
        }
    }
    out +=
        "\nA flag wins over the environment variable in its brackets.\n"
        "Exit status: 0 after QUIT, end of stdin or SIGTERM; 2 a bad option; 3 the model\n"
        "file is refused; 4 no usable device or not enough memory to load; 5 fatal while\n"
        "running; 70 a broken invariant.\n";
    return out;
}

std::string version_text() {
    return "strata-engine " + std::string(kVersion) + "\n";
}

std::string_view version_number() {
    return kVersion;
}

std::string_view kernel_name(KernelChoice choice) {
    switch (choice) {
        case KernelChoice::automatic:
            return "auto";
        case KernelChoice::scalar:
            return "scalar";
        case KernelChoice::avx2:
            return "avx2";
        case KernelChoice::avx512:
            return "avx512";
    }
    return "auto";
}

}  // namespace strata
