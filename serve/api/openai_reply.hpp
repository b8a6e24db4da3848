// An answer in the words of /v1/chat/completions: one JSON body, or chunks as server-sent events.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "serve/api/chat_reply.hpp"
#include "serve/api/chat_request.hpp"
#include "serve/api/exchange.hpp"

namespace strata::serve {

// The same in every chunk of an answer.
struct OpenAiIdentity {
    std::string id;
    std::int64_t created = 0;  // unix seconds
    std::string model;
};

std::unique_ptr<ReplyWriter> make_openai_writer(const ChatRequest& request, OpenAiIdentity identity,
                                                std::shared_ptr<ReplySink> sink);

}  // namespace strata::serve
