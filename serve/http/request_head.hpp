// A request's head as values, and what is wrong with it. Pure: no socket, no parser type.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "serve/api/api_error.hpp"
#include "serve/http/head_scan.hpp"
#include "serve/http/page_files.hpp"
#include "serve/http/routes.hpp"
#include "serve/http/settings.hpp"

namespace strata::serve {

struct RequestHead {
    Method method = Method::get;
    std::string target;
    bool http_1_0 = false;
    bool keep_alive = false;  // what the client wants
    std::size_t hosts = 0;    // number of Host headers
    std::string host;
    std::optional<std::string> origin;
    std::string authorization;
    std::string x_api_key;
    std::string content_type;
    std::string content_encoding;
    std::string accept;
    std::string accept_encoding;
    std::string if_none_match;
    std::string expect;
    std::string transfer_encoding;
    std::string cors_headers;  // Access-Control-Request-Headers
    std::optional<std::uint64_t> content_length;

    bool has_body() const { return !transfer_encoding.empty() || content_length.value_or(0) > 0; }
};

// What the head asks for; `refusal` wins over the rest.
struct HeadVerdict {
    std::optional<ApiError> refusal;
    Target target;
    RouteMatch match;
};

HeadVerdict judge_head(const RequestHead& head, const HttpSettings& settings, PageFiles* pages);

// Of a head that does not end within its limits. Precondition: neither incomplete nor complete.
ApiError head_scan_error(HeadState state);

ApiError body_too_large(std::size_t bytes_max);
ApiError too_slow(std::string_view what);

// When a body of which `received_bytes` have come in counts as too slow.
std::chrono::milliseconds body_time(std::size_t received_bytes, std::chrono::milliseconds grace);

// The answer to OPTIONS: the methods, and for an allowed Origin what a page may send.
Reply options_reply(const RouteMatch& match, const RequestHead& head, bool cors_allowed);

}  // namespace strata::serve
