// The `messages` and `tools` of an OpenAI chat request. Text only: other parts are refused by name.
#pragma once

#include <vector>

#include "serve/api/chat_request.hpp"
#include "serve/api/json_reader.hpp"

namespace strata::serve {

std::vector<ChatMessage> read_openai_messages(FieldReader& request);

// Function tools as they came. Kinds that are not functions run on the vendor's side and are
// dropped.
TemplateList read_openai_tools(FieldReader& request);

// JSON to the values that a template works on.
TemplateValue to_template_value(const boost::json::value& value);

}  // namespace strata::serve
