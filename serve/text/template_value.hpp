// The values a chat template works on: Python's None, bool, int, float, str, list and dict with
// insertion order, as far as templates need them. Strings remember whether they came from a
// message. The api room turns JSON into these; nothing below api/ sees a JSON type.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace strata::serve {

class TemplateValue;
using TemplateList = std::vector<TemplateValue>;
// Insertion order, unique keys.
using TemplateDict = std::vector<std::pair<std::string, TemplateValue>>;

class TemplateValue {
  public:
    using Held = std::variant<std::monostate, bool, std::int64_t, double, std::string, TemplateList,
                              TemplateDict>;
    TemplateValue() = default;  // None
    TemplateValue(Held held) : held_(std::move(held)) {}
    TemplateValue(bool value) : held_(value) {}
    TemplateValue(int value) : held_(std::int64_t{value}) {}
    TemplateValue(std::int64_t value) : held_(value) {}
    TemplateValue(double value) : held_(value) {}
    TemplateValue(std::string value) : held_(std::move(value)) {}
    TemplateValue(const char* value) : held_(std::string(value)) {}
    TemplateValue(TemplateList value) : held_(std::move(value)) {}
    TemplateValue(TemplateDict value) : held_(std::move(value)) {}
    const Held& held() const { return held_; }
    Held& held() { return held_; }

  private:
    Held held_;
};

// The value of a key; nullptr when there is none.
inline const TemplateValue* find_value(const TemplateDict& dict, std::string_view key) {
    for (const auto& [name, value] : dict) {
        if (name == key) return &value;
    }
    return nullptr;
}

}  // namespace strata::serve
