// Token ids that a client sends: read as numbers from its JSON, checked when a vocabulary is at
// hand.
#pragma once

#include <string>
#include <vector>

#include <boost/json/array.hpp>

#include "serve/api/api_error.hpp"
#include "serve/api/chat_request.hpp"
#include "serve/api/json_reader.hpp"
#include "serve/text/text_model.hpp"

namespace strata::serve {

// What is no number is a fault under its place in `path`.
GivenIds read_token_ids(const boost::json::array& list, std::string path, FirstFault& fault);

// 400 names the first id that the vocabulary does not have, its place and what is allowed.
ApiResult<std::vector<TokenId>> checked_ids(const GivenIds& given, const TextModel& text);

}  // namespace strata::serve
