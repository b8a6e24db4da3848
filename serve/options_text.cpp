// Names and help texts made from the option table.
#include <algorithm>
#include <array>
#include <cctype>
#include <string>
#include <utility>
#include <vector>

#include "serve/options.hpp"
#include "strata/core/closest.hpp"
#include "strata/core/wrapped_text.hpp"

namespace strata::serve {
namespace {

struct GroupTitle {
    OptionGroup group;
    std::string_view title;
};
constexpr std::array<GroupTitle, 6> kGroups{{
    {OptionGroup::model, "Model"},
    {OptionGroup::server, "Server"},
    {OptionGroup::access, "Access"},
    {OptionGroup::engine, "Engine"},
    {OptionGroup::sampling, "Sampling (what a request gets when it does not say)"},
    {OptionGroup::logging, "Logging"},
}};

std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
}

std::string option_help(const Option& option) {
    std::string head = "  --" + std::string(option.flag);
    if (!option.argument.empty()) head += " " + std::string(option.argument);
    const std::string preset = option.show(Config{});
    std::string body(option.help);
    if (!option.secret && !preset.empty()) body += "; default " + preset;
    std::string names = "(" + option.environment_name();
    if (option.from_file) names += ", \"" + option.key() + "\"";
    return head + "\n" + wrapped(body + " " + names + ")");
}

}  // namespace

std::string Option::environment_name() const {
    std::string name = "STRATA_";
    for (const char c : flag) {
        name += c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    }
    return name;
}

std::string Option::key() const {
    std::string name(flag);
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

const Option* find_option_by_flag(std::string_view flag) {
    for (const auto& option : option_table()) {
        if (option.flag == flag) return &option;
    }
    return nullptr;
}

const Option* find_option_by_key(std::string_view key) {
    for (const auto& option : option_table()) {
        if (option.key() == key) return &option;
    }
    return nullptr;
}

std::string help_text(std::string_view word) {
    std::string out =
        "strata-serve --model X [options]\n\n"
        "Serves a model over the OpenAI API, with a page for people at /.\n"
        "A flag wins over its environment variable, that over its key in\n"
        "strata-X.json, that over the default. --help WORD shows what mentions WORD.\n"
        "Also: --version, --show-config (every value and where it came from).\n";
    bool found = false;
    for (const auto& [group, title] : kGroups) {
        std::string part;
        for (const auto& option : option_table()) {
            if (option.group != group) continue;
            const std::string text = option_help(option);
            if (lower(text).find(lower(word)) != std::string::npos) part += text;
        }
        found = found || !part.empty();
        if (!part.empty()) out += "\n" + std::string(title) + "\n" + part;
    }
    if (!found) {
        std::vector<std::string> names;
        for (const auto& option : option_table()) names.emplace_back(option.flag);
        out += "\nNothing mentions '" + std::string(word) + "'; the closest option is --" +
               by_closeness(word, std::move(names)).front() + ".\n";
    }
    return out;
}

}  // namespace strata::serve
