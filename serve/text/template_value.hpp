// The values a chat template works on: Python's None, bool, int, float, str, list and dict with
// insertion order, as far as templates need them. Strings remember whether they came from a
// message. The api room turns JSON into these; nothing below api/ sees a JSON type.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace strata::serve {

class TemplateValue;
using TemplateList = std::vector<TemplateValue>;
using TemplateDict =
    std::vector<std::pair<std::string, TemplateValue>>;  // insertion order, unique keys

class TemplateValue {
  public:
    using Held = std::variant<std::monostate, bool, std::int64_t, double, std::string, TemplateList,
                              TemplateDict>;
    TemplateValue() = default;  // None
    TemplateValue(Held held) : held_(std::move(held)) {}
    const Held& held() const { return held_; }
    Held& held() { return held_; }

  private:
    Held held_;
};

}  // namespace strata::serve
