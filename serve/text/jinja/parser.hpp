// Tokens into a tree, by Jinja's own grammar (order of operators, where a bare tuple may stand, how
// a test takes its argument). Syntax that chat templates have no use for (extends, include, import,
// block) is refused by name.
#pragma once

#include <memory>
#include <string_view>

#include "serve/text/jinja/ast.hpp"
#include "strata/core/result.hpp"

namespace strata::serve::jinja {

// A refusal begins with "line L, column C".
Result<std::unique_ptr<const Tree>> parse(std::string_view source);

}  // namespace strata::serve::jinja
