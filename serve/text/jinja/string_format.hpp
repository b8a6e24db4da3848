// str.format and the % operator: patterns with places for values. Everything that was a value keeps
// its marks.
#pragma once

#include "serve/text/jinja/arguments.hpp"
#include "serve/text/jinja/object.hpp"

namespace strata::serve::jinja {

// "{} {name!r:>8}".format(...)
Object format_braces(Meter& meter, const Text& pattern, const Arguments& arguments);

}  // namespace strata::serve::jinja
