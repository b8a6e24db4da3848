// POST /v1/chat/completions: its body to a ChatRequest. Every known field is checked; an unknown
// one is passed over; a field that this engine cannot honour is refused by name.
#pragma once

#include <string_view>

#include "serve/api/api_error.hpp"
#include "serve/api/chat_request.hpp"

namespace strata::serve {

// The error's param is the JSON path of the first bad field.
ApiResult<ChatRequest> parse_openai_chat(std::string_view body);

}  // namespace strata::serve
