// Values as text: Python's str() and repr(), its floats, and json.dumps as chat templates know it.
#pragma once

#include <string>

#include "serve/text/jinja/object.hpp"

namespace strata::serve::jinja {

// repr(float): the shortest digits that read back, with an exponent below 1e-4 and from 1e16 on.
std::string format_real(double value);

// str(): texts keep their marks, an undefined value is empty.
void print(TextBuilder& out, Meter& meter, const Object& object);
TextPtr to_text(Meter& meter, const Object& object);
void print_repr(TextBuilder& out, Meter& meter, const Object& object);

struct JsonStyle {
    std::string item_separator = ", ";
    std::string key_separator = ": ";
    std::optional<std::string> indent;  // one level of it; nothing: all on one line
    bool ensure_ascii = false;
    bool sort_keys = false;
};
// Fails the meter for what json.dumps refuses.
void print_json(TextBuilder& out, Meter& meter, const Object& object, const JsonStyle& style,
                int level = 0);

}  // namespace strata::serve::jinja
