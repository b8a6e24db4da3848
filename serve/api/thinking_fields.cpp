// The words of each spelling, and the order in which they count.
#include "serve/api/thinking_fields.hpp"

#include <array>
#include <utility>

namespace strata::serve {

namespace json = boost::json;

namespace {

constexpr std::string_view kLevelsAllowed = "none, minimal, low, medium, high, xhigh, max";
constexpr std::string_view kTypesAllowed = "\"enabled\", \"disabled\", \"adaptive\" or \"auto\"";
constexpr std::int64_t kBudgetTokensMax = 2'147'483'647;

std::optional<ThinkingLevel> level_of(std::string_view word) {
    constexpr std::array<std::pair<std::string_view, ThinkingLevel>, 7> kLevels = {{
        {"none", ThinkingLevel::off},
        {"minimal", ThinkingLevel::minimal},
        {"low", ThinkingLevel::low},
        {"medium", ThinkingLevel::medium},
        {"high", ThinkingLevel::high},
        {"xhigh", ThinkingLevel::xhigh},
        {"max", ThinkingLevel::xhigh},
    }};
    for (const auto& [name, level] : kLevels) {
        if (name == word) return level;
    }
    return std::nullopt;
}

void unknown_word(FieldReader& reader, std::string_view name, std::string_view allowed) {
    reader.fault().set_value(reader.path_of(name), *reader.find(name), allowed, "invalid_value");
}

std::optional<ThinkingLevel> read_effort(FieldReader& reader, std::string_view name) {
    const std::optional<std::string> effort = reader.text(name);
    if (!effort) return std::nullopt;
    const std::optional<ThinkingLevel> known = level_of(*effort);
    if (!known) unknown_word(reader, name, kLevelsAllowed);
    return known;
}

std::optional<ThinkingLevel> read_switch(FieldReader& reader, std::string_view name) {
    const std::optional<bool> on = reader.boolean(name);
    if (!on) return std::nullopt;
    return *on ? ThinkingLevel::on : ThinkingLevel::off;
}

// {"effort":"low"}, {"enabled":false}
std::optional<ThinkingLevel> read_reasoning(FieldReader& reader) {
    const json::object* const found = reader.object("reasoning");
    if (found == nullptr) return std::nullopt;
    FieldReader inner(*found, "reasoning", reader.fault());
    const std::optional<ThinkingLevel> effort = read_effort(inner, "effort");
    const std::optional<ThinkingLevel> enabled = read_switch(inner, "enabled");
    return enabled == ThinkingLevel::off || !effort ? enabled : effort;
}

// true, or {"type":"enabled","budget_tokens":1024}: counts as on, and a budget of 0 as off.
std::optional<ThinkingLevel> read_thinking_object(FieldReader& reader) {
    const json::value* const found = reader.find("thinking");
    if (found == nullptr) return std::nullopt;
    if (found->is_bool()) return read_switch(reader, "thinking");
    if (!found->is_object()) {
        reader.wrong_type("thinking", "true, false or an object with type");
        return std::nullopt;
    }
    FieldReader inner(found->get_object(), "thinking", reader.fault());
    const std::optional<std::string> type = inner.text("type");
    const std::optional<std::int64_t> budget = inner.integer("budget_tokens", 0, kBudgetTokensMax);
    if (!type) {
        inner.missing("type", kTypesAllowed);
        return std::nullopt;
    }
    if (*type == "disabled") return ThinkingLevel::off;
    if (*type != "enabled" && *type != "adaptive" && *type != "auto") {
        unknown_word(inner, "type", kTypesAllowed);
        return std::nullopt;
    }
    return budget == 0 ? ThinkingLevel::off : ThinkingLevel::on;
}

struct TemplateLevels {
    std::optional<ThinkingLevel> enabled;
    std::optional<ThinkingLevel> effort;
};

// What chat_template_kwargs tells the template; a level that the template alone knows passes.
TemplateLevels read_template_levels(FieldReader& reader) {
    TemplateLevels levels;
    const json::object* const found = reader.object("chat_template_kwargs");
    if (found == nullptr) return levels;
    FieldReader inner(*found, "chat_template_kwargs", reader.fault());
    levels.enabled = read_switch(inner, "enable_thinking");
    const json::value* const effort = inner.find("reasoning_effort");
    if (effort != nullptr && effort->is_string()) {
        const json::string& word = effort->get_string();
        levels.effort = level_of(std::string_view(word.data(), word.size()));
    }
    return levels;
}

}  // namespace

ThinkingLevel read_thinking(FieldReader& reader) {
    const TemplateLevels in_template = read_template_levels(reader);
    const std::optional<ThinkingLevel> in_order[] = {
        in_template.effort,
        read_effort(reader, "reasoning_effort"),
        read_reasoning(reader),
        read_thinking_object(reader),
        read_switch(reader, "enable_thinking"),
        in_template.enabled,
    };
    // The template has the last word on whether there is any.
    if (in_template.enabled == ThinkingLevel::off) return ThinkingLevel::off;
    for (const std::optional<ThinkingLevel>& level : in_order) {
        if (!level) continue;
        const bool overruled = *level == ThinkingLevel::off && in_template.enabled;
        return overruled ? ThinkingLevel::on : *level;
    }
    return ThinkingLevel::unset;
}

std::optional<std::int64_t> read_thinking_budget(FieldReader& reader) {
    const auto inside = [&reader](std::string_view object,
                                  std::string_view name) -> std::optional<std::int64_t> {
        const json::value* const found = reader.find(object);
        if (found == nullptr || !found->is_object()) return std::nullopt;
        FieldReader inner(found->get_object(), std::string(object), reader.fault());
        return inner.integer(name, 0, kBudgetTokensMax);
    };
    const std::optional<std::int64_t> in_order[] = {
        reader.integer("reasoning_budget_tokens", 0, kBudgetTokensMax),
        reader.integer("thinking_token_budget", 0, kBudgetTokensMax),
        inside("reasoning", "max_tokens"),
        inside("thinking", "budget_tokens"),
    };
    for (const std::optional<std::int64_t>& budget : in_order) {
        if (budget) return budget;
    }
    return std::nullopt;
}

}  // namespace strata::serve
