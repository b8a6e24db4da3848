// POST /v1/completions becomes a ChatRequest with a raw prompt.
#pragma once

#include <string_view>

#include "serve/api/api_error.hpp"
#include "serve/api/chat_request.hpp"

namespace strata::serve {

// `prompt` is a text, a list of token ids, or a list of one of these.
ApiResult<ChatRequest> parse_openai_completion(std::string_view body);

}  // namespace strata::serve
