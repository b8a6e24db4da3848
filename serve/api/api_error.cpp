// The OpenAI shape of an error. `code` is a word or null, never a number.
#include "serve/api/api_error.hpp"

#include "serve/api/json_writer.hpp"

namespace strata::serve {

std::string_view error_type(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::invalid_request:
        case ErrorKind::method_not_allowed:
        case ErrorKind::request_timeout:
        case ErrorKind::uri_too_long:
        case ErrorKind::unsupported_media:
        case ErrorKind::expectation_failed:
        case ErrorKind::headers_too_large:
            return "invalid_request_error";
        case ErrorKind::context_exceeded:
            return "exceed_context_size_error";
        case ErrorKind::authentication:
            return "authentication_error";
        case ErrorKind::permission:
            return "permission_error";
        case ErrorKind::not_found:
            return "not_found_error";
        case ErrorKind::request_too_large:
            return "request_too_large";
        case ErrorKind::conflict:
            return "conflict_error";
        case ErrorKind::not_supported:
            return "not_supported_error";
        case ErrorKind::rate_limited:
            return "rate_limit_error";
        case ErrorKind::unavailable:
            return "unavailable_error";
        case ErrorKind::server_error:
            return "server_error";
    }
    return "server_error";
}

std::string openai_error_body(const ApiError& error) {
    JsonWriter json;
    json.begin_object().key("error").begin_object();
    json.field("message", error.message);
    json.field("type", error_type(error.kind));
    json.field_or_null("param", error.param);
    json.field_or_null("code", error.code);
    if (error.kind == ErrorKind::context_exceeded) {
        json.field("n_prompt_tokens", error.n_prompt_tokens);
        json.field("n_ctx", error.n_ctx);
    }
    json.end_object().end_object();
    return json.take();
}

}  // namespace strata::serve
