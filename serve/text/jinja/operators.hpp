// Python's operators on values. Each fails the meter where Python raises.
#pragma once

#include "serve/text/jinja/ast.hpp"
#include "serve/text/jinja/object.hpp"

namespace strata::serve::jinja {

Object apply_binary(Meter& meter, BinaryOp op, const Object& a, const Object& b);
bool apply_compare(Meter& meter, CompareOp op, const Object& a, const Object& b);
Object apply_sign(Meter& meter, const Object& value, bool negative);
bool contains(Meter& meter, const Object& container, const Object& item);

// text % values, Python's printf-like formatting. `values`: a tuple, a dict or one value.
Object format_percent(Meter& meter, const Text& pattern, const Object& values);

}  // namespace strata::serve::jinja
