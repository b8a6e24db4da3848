// The engine's one door for configuration: command line over environment over defaults becomes one
// validated struct, before anything is loaded. One table of options feeds parsing, --help and
// checks.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "engine/device_choice.hpp"
#include "strata/backend/kv_rows.hpp"
#include "strata/core/result.hpp"
#include "strata/core/types.hpp"
#include "strata/model/runner.hpp"

namespace strata {

enum class KernelChoice : std::uint8_t { automatic, scalar, avx2, avx512 };

struct EngineOptions {
    std::string model_path;
    std::int64_t max_context = 0;  // tokens; 0 = the model's, at most kDefaultContextTokensMax
    std::int64_t threads = 0;      // 0 = one per core
    KvType kv = KvType::f16;
    DeviceChoice device;
    KernelChoice kernels = KernelChoice::automatic;
    std::vector<ControlVector> control_vectors;  // names differ
    std::int64_t chunk_tokens = 512;
    std::int64_t chunk_ms = 250;
    bool exact = false;
    std::int64_t prompt_cache = 6;
    std::int64_t prompt_cache_every = 16384;  // tokens
    std::int64_t prompt_cache_root = 2048;    // tokens
    std::int64_t turn_token = -1;             // -1 = the vocabulary's own
    std::int64_t conversation_cache_mib = 0;  // 0 = off
    std::int64_t conversation_cache_slots = 4;
    std::int64_t device_pool_mib = 1 << 24;  // more than any device has: what is free
    std::int64_t conversation_cache_min_free_mib = 2560;
    std::int64_t conv_pressure_ms = 2000;  // 0 = no timed checks
    std::int64_t conv_pressure_hyst_mib = 1024;
    std::int64_t memory_limit_mib = 0;  // 0 = none
    bool snapshot_verify = false;
    std::string host_memory_file;  // empty = ask the system
    std::int64_t parent_pid = 0;   // 0 = nobody's
    bool show_help = false;
    bool show_version = false;
};

// Without --max-context: more than this only on request, since a conversation's memory grows with
// it.
inline constexpr std::int64_t kDefaultContextTokensMax = 32768;

enum class OptionGroup : std::uint8_t { model, machine, prompt, conversations, process };

// One row of the table; a row that may be given several times adds to what is there. `set` parses
// and checks a value; its refusal says only what is allowed.
struct OptionRow {
    std::string_view name;      // with its dashes
    std::string_view argument;  // how --help shows the value; empty: a switch
    OptionGroup group;
    std::string_view help;
    std::function<bool(EngineOptions&, std::string_view)> set;
    std::string allowed;                                    // in words, for --help and refusals
    std::function<std::string(const EngineOptions&)> show;  // how a default reads; empty = none

    std::string environment_name() const;  // STRATA_MAX_CONTEXT
};

const std::vector<OptionRow>& option_table();

// Looks a variable of the environment up; empty when it is not set.
using Environment = std::function<std::optional<std::string>(const std::string&)>;
Environment process_environment();

// `arguments` without the program's name. Refusals name the option, its value and what is allowed;
// an unknown option's refusal names the closest known one.
Result<EngineOptions> parse_options(std::span<const std::string_view> arguments,
                                    const Environment& environment);

std::string help_text();  // at most 80 columns
std::string version_text();
std::string_view version_number();
std::string_view kernel_name(KernelChoice choice);  // as make_cpu_device takes it

}  // namespace strata
