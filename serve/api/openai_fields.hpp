// Fields that chat and text completions have in common: sampling, stop strings, limits, streaming.
// A fault is kept by the reader with the field's path.
#pragma once

#include <string_view>

#include "serve/api/chat_request.hpp"
#include "serve/api/json_reader.hpp"

namespace strata::serve {

// Into the request: streaming, max_tokens, sampling, stop.
void read_shared_fields(FieldReader& reader, ChatRequest& request);
void check_logit_bias(FieldReader& reader);
// "NAME is not supported: WHY"
void refuse_field(FieldReader& reader, std::string_view name, std::string_view why);

}  // namespace strata::serve
