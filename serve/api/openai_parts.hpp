// What the answers of chat and text completions have in common.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "serve/api/chat_reply.hpp"
#include "serve/api/exchange.hpp"
#include "serve/api/json_writer.hpp"

namespace strata::serve {

inline constexpr int kLogprobDecimals = 6;

// The same in every chunk of an answer.
struct OpenAiIdentity {
    std::string id;
    std::int64_t created = 0;  // unix seconds
    std::string model;
};

std::string_view finish_reason(AnswerFinish finish);
// Keys of the open object:
void write_head(JsonWriter& json, const OpenAiIdentity& identity, std::string_view object);
void write_usage(JsonWriter& json, const Usage& usage);
void write_timings(JsonWriter& json, const Timings& timings);
// One frame of an event stream.
void send_event(ReplySink& sink, std::string_view json);

}  // namespace strata::serve
