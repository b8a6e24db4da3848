// How the refusal of a template begins that a model's own template has raised, behind its place:
// it is about the conversation. Every other refusal of it is about the template or a limit.
#pragma once

#include <string_view>

namespace strata::serve {

inline constexpr std::string_view kTemplateRaised = "the template raised: ";

}  // namespace strata::serve
