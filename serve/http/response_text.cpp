// Status numbers, reason phrases and header lines.
#include "serve/http/response_text.hpp"

#include <array>
#include <charconv>

namespace strata::serve {

namespace {

void add_header(std::string& out, std::string_view name, std::string_view value) {
    out += name;
    out += ": ";
    out += value;
    out += "\r\n";
}

std::string status_line(int status, const ResponseFrame& frame) {
    std::string out = frame.http_1_0 ? "HTTP/1.0 " : "HTTP/1.1 ";
    out += std::to_string(status);
    out += ' ';
    out += reason_of(status);
    out += "\r\n";
    return out;
}

void add_common_headers(std::string& out, const ResponseFrame& frame) {
    add_header(out, "x-request-id", frame.request_id);
    add_header(out, "request-id", frame.request_id);
    add_header(out, "x-content-type-options", "nosniff");
    if (frame.cors_origin) {
        add_header(out, "access-control-allow-origin", *frame.cors_origin);
        add_header(out, "access-control-expose-headers", "x-request-id, request-id, retry-after");
        add_header(out, "vary", "origin");
    }
    if (!frame.keep_alive) {
        add_header(out, "connection", "close");
    } else if (frame.http_1_0) {
        add_header(out, "connection", "keep-alive");
    }
}

}  // namespace

int status_of(ErrorKind kind) {
    switch (kind) {
        case ErrorKind::invalid_request:
        case ErrorKind::context_exceeded:
            return 400;
        case ErrorKind::authentication:
            return 401;
        case ErrorKind::permission:
            return 403;
        case ErrorKind::not_found:
            return 404;
        case ErrorKind::method_not_allowed:
            return 405;
        case ErrorKind::request_timeout:
            return 408;
        case ErrorKind::request_too_large:
            return 413;
        case ErrorKind::conflict:
            return 409;
        case ErrorKind::uri_too_long:
            return 414;
        case ErrorKind::unsupported_media:
            return 415;
        case ErrorKind::expectation_failed:
            return 417;
        case ErrorKind::rate_limited:
            return 429;
        case ErrorKind::headers_too_large:
            return 431;
        case ErrorKind::server_error:
            return 500;
        case ErrorKind::not_supported:
            return 501;
        case ErrorKind::unavailable:
            return 503;
    }
    return 500;
}

std::string_view reason_of(int status) {
    switch (status) {
        case 200:
            return "OK";
        case 202:
            return "Accepted";
        case 204:
            return "No Content";
        case 304:
            return "Not Modified";
        case 400:
            return "Bad Request";
        case 401:
            return "Unauthorized";
        case 403:
            return "Forbidden";
        case 404:
            return "Not Found";
        case 405:
            return "Method Not Allowed";
        case 408:
            return "Request Timeout";
        case 409:
            return "Conflict";
        case 413:
            return "Content Too Large";
        case 414:
            return "URI Too Long";
        case 415:
            return "Unsupported Media Type";
        case 417:
            return "Expectation Failed";
        case 429:
            return "Too Many Requests";
        case 431:
            return "Request Header Fields Too Large";
        case 500:
            return "Internal Server Error";
        case 501:
            return "Not Implemented";
        case 503:
            return "Service Unavailable";
        default:
            return "Status";
    }
}

Reply error_reply(const ApiError& error) {
    Reply reply;
    reply.status = status_of(error.kind);
    if (error.retry_after) {
        reply.headers.emplace_back("retry-after", std::to_string(error.retry_after->count()));
    }
    if (!error.allow.empty()) reply.headers.emplace_back("allow", error.allow);
    if (error.kind == ErrorKind::authentication) {
        reply.headers.emplace_back("www-authenticate", "Bearer");
    }
    reply.body = openai_error_body(error);
    return reply;
}

std::string response_bytes(const Reply& reply, const ResponseFrame& frame) {
    std::string out = status_line(reply.status, frame);
    const bool bodiless = reply.status == 204 || reply.status == 304;
    if (!bodiless) {
        add_header(out, "content-type", reply.content_type);
        add_header(out, "content-length", std::to_string(reply.body.size()));
    }
    add_common_headers(out, frame);
    for (const auto& [name, value] : reply.headers) add_header(out, name, value);
    out += "\r\n";
    if (!bodiless && !frame.head_only) out += reply.body;
    return out;
}

std::string event_stream_head(const ResponseFrame& frame) {
    std::string out = status_line(200, frame);
    add_header(out, "content-type", "text/event-stream; charset=utf-8");
    add_header(out, "cache-control", "no-cache");
    add_header(out, "x-accel-buffering", "no");
    if (!frame.http_1_0) add_header(out, "transfer-encoding", "chunked");
    add_common_headers(out, frame);
    out += "\r\n";
    return out;
}

void append_chunk(std::string& out, std::string_view bytes) {
    std::array<char, 16> digits{};
    const auto end =
        std::to_chars(digits.data(), digits.data() + digits.size(), bytes.size(), 16).ptr;
    out.append(digits.data(), end);
    out += "\r\n";
    out += bytes;
    out += "\r\n";
}

}  // namespace strata::serve
