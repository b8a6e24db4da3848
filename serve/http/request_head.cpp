// The checks of a head, cheapest and strictest first.
#include "serve/http/request_head.hpp"

#include <algorithm>
#include <cctype>

#include "serve/http/access.hpp"

namespace strata::serve {

namespace {

constexpr std::size_t kHeaderShownBytes = 64;  // of a client's header in an error message

bool equal_ignoring_case(std::string_view a, std::string_view b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
        return std::tolower(x) == std::tolower(y);
    });
}

ApiError bad(std::string message) {
    ApiError error;
    error.message = std::move(message);
    error.code = "bad_request";
    return error;
}

std::optional<ApiError> framing_refusal(const RequestHead& head) {
    if (head.hosts > 1) return bad("Host is given more than once");
    if (head.hosts == 0 && !head.http_1_0) return bad("Host is missing");
    if (!head.transfer_encoding.empty()) {
        if (head.http_1_0) return bad("Transfer-Encoding needs HTTP/1.1");
        if (head.content_length)
            return bad("Transfer-Encoding and Content-Length exclude each other");
        if (!equal_ignoring_case(head.transfer_encoding, "chunked")) {
            return bad("Transfer-Encoding may only be chunked");
        }
    }
    return std::nullopt;
}

bool is_json(std::string_view content_type) {
    std::string_view type = content_type.substr(0, content_type.find(';'));
    while (type.ends_with(' ') || type.ends_with('\t')) type.remove_suffix(1);
    if (equal_ignoring_case(type, "application/json")) return true;
    constexpr std::string_view kSuffix = "+json";
    return type.size() > kSuffix.size() &&
           equal_ignoring_case(type.substr(type.size() - kSuffix.size()), kSuffix);
}

// A body that is packed would be read as broken JSON.
std::optional<ApiError> encoding_refusal(const RequestHead& head) {
    const std::string& given = head.content_encoding;
    if (given.empty() || equal_ignoring_case(given, "identity")) return std::nullopt;
    ApiError error;
    error.kind = ErrorKind::unsupported_media;
    error.code = "unsupported_content_encoding";
    error.message = "Content-Encoding is " + given.substr(0, kHeaderShownBytes) +
                    "; allowed: identity, or none: send the body as it is";
    return error;
}

std::optional<ApiError> body_refusal(const RequestHead& head, const HttpSettings& settings,
                                     Route route) {
    const bool api_post = head.method == Method::post && route != Route::not_supported;
    // These need no body; a form that another page sends declares a type all the same.
    const bool empty =
        (route == Route::load || route == Route::unload || route == Route::cache_pin) &&
        head.content_type.empty() && head.content_length.value_or(0) == 0 &&
        head.transfer_encoding.empty();
    if (api_post && !empty && !is_json(head.content_type)) {
        ApiError error;
        error.kind = ErrorKind::unsupported_media;
        error.code = "unsupported_media_type";
        error.message = "send the body as JSON with the header Content-Type: application/json";
        return error;
    }
    if (auto refusal = encoding_refusal(head)) return refusal;
    if (!head.expect.empty() && !equal_ignoring_case(head.expect, "100-continue")) {
        ApiError error;
        error.kind = ErrorKind::expectation_failed;
        error.code = "expectation_failed";
        error.message = "Expect may only be 100-continue";
        return error;
    }
    if (head.content_length.value_or(0) > settings.limits.body_bytes_max) {
        return body_too_large(settings.limits.body_bytes_max);
    }
    return std::nullopt;
}

AccessFacts access_facts(const RequestHead& head, const Target& target, bool open_route) {
    AccessFacts facts;
    // The target of an absolute form wins over Host (RFC 9112, 3.2.2).
    facts.host = target.authority.empty() ? head.host : target.authority;
    facts.has_origin = head.origin.has_value();
    if (head.origin) facts.origin = *head.origin;
    facts.authorization = head.authorization;
    facts.x_api_key = head.x_api_key;
    facts.posts =
        head.method == Method::post || head.method == Method::erase || head.method == Method::other;
    facts.open_route = open_route || head.method == Method::options;
    return facts;
}

bool header_names_only(std::string_view list) {
    return std::all_of(list.begin(), list.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '-' || c == '_' || c == ',' || c == ' ';
    });
}

}  // namespace

HeadVerdict judge_head(const RequestHead& head, const HttpSettings& settings, PageFiles* pages) {
    HeadVerdict verdict;
    verdict.refusal = framing_refusal(head);
    if (verdict.refusal) return verdict;
    std::optional<Target> target = parse_target(head.target);
    if (!target) {
        verdict.refusal = bad("the request target is malformed");
        return verdict;
    }
    verdict.target = std::move(*target);
    const bool is_page = pages != nullptr && pages->has(verdict.target.path);
    std::optional<RouteMatch> match = match_route(head.method, verdict.target.path, is_page);
    verdict.refusal = access_refusal(
        settings.access, access_facts(head, verdict.target, match.has_value() && match->open));
    if (verdict.refusal) return verdict;
    if (!match) {
        ApiError error;
        error.kind = ErrorKind::not_found;
        error.code = "unknown_route";
        error.message = "there is nothing at this path; the API is under /v1";
        verdict.refusal = std::move(error);
        return verdict;
    }
    verdict.match = std::move(*match);
    if (!verdict.match.method_known) {
        ApiError error;
        error.kind = ErrorKind::method_not_allowed;
        error.code = "method_not_allowed";
        error.message = "this path answers to " + std::string(verdict.match.allow);
        error.allow = std::string(verdict.match.allow);
        verdict.refusal = std::move(error);
        return verdict;
    }
    verdict.refusal = body_refusal(head, settings, verdict.match.route);
    return verdict;
}

ApiError head_scan_error(HeadState state) {
    ApiError error;
    switch (state) {
        case HeadState::request_line_too_long:
            error.kind = ErrorKind::uri_too_long;
            error.code = "uri_too_long";
            error.message = "the request line is longer than " +
                            std::to_string(kRequestLineBytesMax) + " bytes";
            break;
        case HeadState::header_too_long:
            error.kind = ErrorKind::headers_too_large;
            error.code = "header_too_large";
            error.message =
                "a header is longer than " + std::to_string(kHeaderLineBytesMax) + " bytes";
            break;
        case HeadState::headers_too_long:
            error.kind = ErrorKind::headers_too_large;
            error.code = "headers_too_large";
            error.message =
                "the headers are longer than " + std::to_string(kHeadersBytesMax) + " bytes";
            break;
        case HeadState::too_many_headers:
            error.kind = ErrorKind::headers_too_large;
            error.code = "too_many_headers";
            error.message = "there are more than " + std::to_string(kHeadersMax) + " headers";
            break;
        case HeadState::folded_header:
            error = bad("a header line may not be continued");
            break;
        case HeadState::incomplete:
        case HeadState::complete:
            error = bad("the request head is malformed");
            break;
    }
    return error;
}

ApiError body_too_large(std::size_t bytes_max) {
    ApiError error;
    error.kind = ErrorKind::request_too_large;
    error.code = "request_too_large";
    error.message = "the body is larger than " + std::to_string(bytes_max) +
                    " bytes (--max-body-mib sets this limit)";
    return error;
}

ApiError too_slow(std::string_view what) {
    ApiError error;
    error.kind = ErrorKind::request_timeout;
    error.code = "request_timeout";
    error.message = std::string(what) + " came too slowly";
    return error;
}

std::chrono::milliseconds body_time(std::size_t received_bytes, std::chrono::milliseconds grace) {
    const std::chrono::milliseconds at_least{
        static_cast<std::int64_t>(received_bytes * 1000 / kBodyBytesPerSecondMin)};
    return std::max(grace, at_least);
}

Reply options_reply(const RouteMatch& match, const RequestHead& head, bool cors_allowed) {
    Reply reply;
    reply.status = 204;
    reply.headers.emplace_back("allow", std::string(match.allow));
    if (cors_allowed) {
        reply.headers.emplace_back("access-control-allow-methods", std::string(match.allow));
        if (!head.cors_headers.empty() && header_names_only(head.cors_headers)) {
            reply.headers.emplace_back("access-control-allow-headers", head.cors_headers);
        }
        reply.headers.emplace_back("access-control-max-age", "600");
    }
    return reply;
}

}  // namespace strata::serve
