// Binding by position, then by name.
#include "serve/text/jinja/arguments.hpp"

#include <algorithm>

namespace strata::serve::jinja {

std::optional<Bound> bind(Meter& meter, const Signature& signature, const Arguments& arguments) {
    Bound bound{};
    const auto end = std::find(signature.names.begin(), signature.names.end(), std::string_view());
    const auto count = static_cast<std::size_t>(end - signature.names.begin());
    if (arguments.positional.size() > count) {
        meter.fail("takes at most " + std::to_string(count) + " arguments, " +
                   std::to_string(arguments.positional.size()) + " are given");
        return std::nullopt;
    }
    for (std::size_t i = 0; i < arguments.positional.size(); ++i)
        bound[i] = &arguments.positional[i];
    for (const auto& [name, value] : arguments.named) {
        const auto at = static_cast<std::size_t>(std::find(signature.names.begin(), end, name) -
                                                 signature.names.begin());
        if (at == count || bound[at] != nullptr) {
            meter.fail((at == count ? "has no parameter '" : "gets twice the parameter '") + name +
                       "'");
            return std::nullopt;
        }
        bound[at] = &value;
    }
    for (std::size_t i = 0; i < signature.required; ++i) {
        if (bound[i] != nullptr) continue;
        meter.fail("needs the argument '" + std::string(signature.names[i]) + "'");
        return std::nullopt;
    }
    return bound;
}

std::int64_t integer_or(Meter& meter, const Object* value, std::int64_t fallback) {
    if (value == nullptr || value->none()) return fallback;
    if (is_integral(*value)) return integer_of(*value);
    meter.fail(std::string("an int is needed, not ") + type_name(*value));
    return fallback;
}

bool truth_or(const Object* value, bool fallback) {
    return value == nullptr ? fallback : truthy(*value);
}

TextPtr text_or_empty(Meter& meter, const Object* value) {
    if (value != nullptr && value->text()) return *value->as<TextPtr>();
    if (value != nullptr && !value->none())
        meter.fail(std::string("a str is needed, not ") + type_name(*value));
    return std::make_shared<const Text>(nullptr, std::string(), std::vector<Mark>{});
}

}  // namespace strata::serve::jinja
