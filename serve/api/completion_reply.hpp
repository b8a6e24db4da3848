// An answer in the words of /v1/completions: one JSON body, or chunks as server-sent events.
#pragma once

#include <memory>

#include "serve/api/chat_reply.hpp"
#include "serve/api/chat_request.hpp"
#include "serve/api/exchange.hpp"
#include "serve/api/openai_parts.hpp"

namespace strata::serve {

std::unique_ptr<ReplyWriter> make_completion_writer(const ChatRequest& request,
                                                    OpenAiIdentity identity,
                                                    std::shared_ptr<ReplySink> sink);

}  // namespace strata::serve
