// The one table of the server's options. Flags, environment, strata-<model>.json, --help and
// --show-config all read it; it owns names, ranges and help texts, not the order of the sources
// (config.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "serve/config.hpp"
#include "strata/core/result.hpp"

namespace strata::serve {

// A value as a source gave it, before it is checked; monostate = a form that no option takes.
using RawValue =
    std::variant<std::monostate, bool, std::int64_t, double, std::string, std::vector<std::string>>;

enum class OptionGroup : std::uint8_t { model, server, engine, sampling, access, logging };

struct Option {
    std::string_view flag;  // without the dashes: "port"
    OptionGroup group;
    std::string_view argument;  // what --help shows after the flag; "" = a switch
    std::string_view help;
    // Checks and stores; the text names what is allowed, not the option or its value.
    std::function<Status<>(Config&, const RawValue&)> store;
    // The value in effect, as --show-config prints it.
    std::function<std::string(const Config&)> show;
    bool from_file = true;    // may stand in strata-<model>.json
    bool secret = false;      // --show-config hides it
    bool repeatable = false;  // a flag may come several times

    std::string environment_name() const;  // STRATA_PORT
    std::string key() const;               // port; max_body_mib
};

inline constexpr std::size_t kKeyCharsMin = 8;  // a shorter key is guessed

std::span<const Option> option_table();
const Option* find_option_by_flag(std::string_view flag);
const Option* find_option_by_key(std::string_view key);
// --help: grouped, at most 80 columns; `word` keeps the options that mention it.
std::string help_text(std::string_view word);

}  // namespace strata::serve
