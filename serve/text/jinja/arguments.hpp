// Arguments of a call and how they meet the parameters of a filter, test, method or function.
#pragma once

#include <array>
#include <optional>
#include <string_view>

#include "serve/text/jinja/object.hpp"

namespace strata::serve::jinja {

struct Arguments {
    Objects positional;
    Named named;
};

inline constexpr std::size_t kParametersMax = 5;

// A signature: names in order, of which the first `required` must be given.
struct Signature {
    std::size_t required = 0;
    std::array<std::string_view, kParametersMax> names{};  // the rest is empty
};

// The value of each parameter; nullptr where none was given. Points into the arguments.
using Bound = std::array<const Object*, kParametersMax>;

// Fails the meter for too many, too few, unknown or doubled arguments.
std::optional<Bound> bind(Meter& meter, const Signature& signature, const Arguments& arguments);

// Readers of bound values with a fallback for what is missing or None; they fail for other types.
std::int64_t integer_or(Meter& meter, const Object* value, std::int64_t fallback);
bool truth_or(const Object* value, bool fallback);
// The text, empty when missing; fails when it is no str.
TextPtr text_or_empty(Meter& meter, const Object* value);

}  // namespace strata::serve::jinja
