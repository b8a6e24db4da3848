// A response's head as bytes, and the status of each kind of error. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "serve/api/api_error.hpp"
#include "serve/api/exchange.hpp"

namespace strata::serve {

int status_of(ErrorKind kind);
std::string_view reason_of(int status);

// The OpenAI error body with its status and Retry-After.
Reply error_reply(const ApiError& error);

// What a response's head depends on besides the reply.
struct ResponseFrame {
    std::string request_id;
    bool keep_alive = true;
    bool http_1_0 = false;
    bool head_only = false;                  // HEAD: the length is said, the body is not sent
    std::optional<std::string> cors_origin;  // Access-Control-Allow-Origin
};

// Status line, headers, empty line; with the body unless head_only or 204.
std::string response_bytes(const Reply& reply, const ResponseFrame& frame);

// The head of an event stream: chunked, or up to the connection's end for HTTP/1.0.
std::string event_stream_head(const ResponseFrame& frame);

// One chunk of a chunked body; `bytes` is not empty.
void append_chunk(std::string& out, std::string_view bytes);
inline constexpr std::string_view kLastChunk = "0\r\n\r\n";

}  // namespace strata::serve
