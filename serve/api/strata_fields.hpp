// The object `strata` of a request: what this server's engine can do and no dialect has a word for.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "serve/api/chat_request.hpp"
#include "serve/api/json_reader.hpp"

namespace strata::serve {

// {"checkpoint": false, "pin_messages": K, "steering": "name" | false}. Another key, another type
// or a value that means nothing here is a fault that names its path. `request` has its messages, or
// its raw prompt.
void read_strata_fields(FieldReader& reader, ChatRequest& request);

// None: the request names no mode, or one of the engine's.
std::optional<ApiError> steering_refusal(const ChatRequest& request,
                                         const std::vector<std::string>& names);

}  // namespace strata::serve
