// What a client is told when its request is not answered. Owns the kinds of refusal and their
// OpenAI JSON shape; which HTTP status a kind has is serve/http's to say.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "strata/core/result.hpp"

namespace strata::serve {

enum class ErrorKind : std::uint8_t {
    invalid_request,     // bad JSON, a bad field, bad framing
    context_exceeded,    // the prompt does not fit; n_prompt_tokens and n_ctx are set
    authentication,      // no key, or a wrong one
    permission,          // Host or Origin refused
    not_found,           // no such route or model
    method_not_allowed,  // the route exists, not for this method
    request_timeout,     // headers or body came too slowly
    request_too_large,   // body over the limit
    uri_too_long,        // request line over the limit
    unsupported_media,   // a body that is not declared as JSON
    expectation_failed,  // Expect: something else than 100-continue
    headers_too_large,   // a header, all of them or their number over the limit
    conflict,            // what is asked for cannot be while something else goes on
    not_supported,       // a route that this server names but does not have
    rate_limited,        // the queue is full
    unavailable,         // loading, restarting, failed or leaving
    server_error,        // the engine failed on this request
};

struct ApiError {
    ErrorKind kind = ErrorKind::invalid_request;
    std::string message;
    std::string param;  // JSON path of the field; "" = null
    std::string code;   // "" = null
    std::optional<std::chrono::seconds> retry_after;
    std::string allow;                 // methods, of method_not_allowed
    std::int64_t n_prompt_tokens = 0;  // tokens, of context_exceeded
    std::int64_t n_ctx = 0;
};

template <class T>
using ApiResult = Result<T, ApiError>;

// The word of "type" in both dialects' error objects.
std::string_view error_type(ErrorKind kind);

// {"error":{"message","type","param","code"}}, one line; also what stands in `data:` when a stream
// that has begun cannot go on.
std::string openai_error_body(const ApiError& error);

}  // namespace strata::serve
