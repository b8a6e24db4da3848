// Fields that chat and text completions have in common: sampling, stop strings, limits, streaming.
// A fault is kept by the reader with the field's path.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/api/chat_request.hpp"
#include "serve/api/json_reader.hpp"

namespace strata::serve {

SamplingFields read_sampling(FieldReader& reader);
std::vector<std::string> read_stop(FieldReader& reader);
std::optional<std::int64_t> read_max_tokens(FieldReader& reader);  // tokens
void read_stream_fields(FieldReader& reader, ChatRequest& request);
void check_logit_bias(FieldReader& reader);
// "NAME is not supported: WHY"
void refuse_field(FieldReader& reader, std::string_view name, std::string_view why);

}  // namespace strata::serve
