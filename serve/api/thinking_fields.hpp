// How much the model shall think: five spellings of OpenAI-compatible clients become one level. In
// the order in which they count:
//
//   reasoning_effort, reasoning.effort (or .enabled), thinking, enable_thinking,
//   chat_template_kwargs.enable_thinking
//
// but chat_template_kwargs goes to the template as it is: what it says about thinking wins over
// all.
#pragma once

#include "serve/api/chat_request.hpp"
#include "serve/api/json_reader.hpp"

namespace strata::serve {

ThinkingLevel read_thinking(FieldReader& reader);

// The most tokens that it may think, 0 to 2^31 - 1, by the first of reasoning_budget_tokens,
// thinking_token_budget, reasoning.max_tokens and thinking.budget_tokens that is given.
std::optional<std::int64_t> read_thinking_budget(FieldReader& reader);

}  // namespace strata::serve
