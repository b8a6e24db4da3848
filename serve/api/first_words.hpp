// The beginning of a conversation's first question, by which a person knows it again in a list.
// Only read where --show-prompts asks for it.
#pragma once

#include <cstddef>
#include <string>

#include "serve/api/chat_request.hpp"

namespace strata::serve {

inline constexpr std::size_t kFirstWordsBytesMax = 60;  // one line of a narrow page

// Whole characters on one line, blanks as single spaces; "" when there is no question.
std::string first_words(const ChatRequest& request);

}  // namespace strata::serve
