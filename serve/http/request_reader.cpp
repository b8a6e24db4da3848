// Beast's parser, fed by hand: its own limits cannot tell a long request line from long headers.
#include "serve/http/request_reader.hpp"

#include <utility>

#include <boost/asio/buffer.hpp>
#include <boost/beast/http/parser.hpp>
#include <boost/beast/http/string_body.hpp>

namespace strata::serve {

namespace net = boost::asio;
namespace http = boost::beast::http;

struct RequestReader::Parser {
    http::request_parser<http::string_body> beast;
};

namespace {

using Fields = http::request<http::string_body>;

std::string field(const Fields& request, http::field name) {
    const auto value = request[name];
    return {value.data(), value.size()};
}

std::string field(const Fields& request, std::string_view name) {
    const auto value = request[boost::beast::string_view(name.data(), name.size())];
    return {value.data(), value.size()};
}

// Of a header that may be given in parts (RFC 9110, 5.3).
std::string all_of(const Fields& request, http::field name) {
    std::string out;
    const auto [begin, end] = request.equal_range(name);
    for (auto each = begin; each != end; ++each) {
        out += out.empty() ? "" : ", ";
        out.append(each->value().data(), each->value().size());
    }
    return out;
}

Method method_of(http::verb verb) {
    if (verb == http::verb::get) return Method::get;
    if (verb == http::verb::head) return Method::head;
    if (verb == http::verb::post) return Method::post;
    if (verb == http::verb::delete_) return Method::erase;
    if (verb == http::verb::options) return Method::options;
    return Method::other;
}

RequestHead head_of(const http::request_parser<http::string_body>& parser) {
    const Fields& request = parser.get();
    RequestHead head;
    head.method = method_of(request.method());
    head.target = std::string(request.target().data(), request.target().size());
    head.http_1_0 = request.version() < 11;
    head.keep_alive = parser.keep_alive();
    head.hosts = request.count(http::field::host);
    head.host = field(request, http::field::host);
    if (request.count(http::field::origin) > 0) head.origin = field(request, http::field::origin);
    head.authorization = field(request, http::field::authorization);
    head.x_api_key = field(request, "x-api-key");
    head.content_type = field(request, http::field::content_type);
    head.content_encoding = all_of(request, http::field::content_encoding);
    head.accept = field(request, http::field::accept);
    head.accept_encoding = field(request, http::field::accept_encoding);
    head.if_none_match = field(request, http::field::if_none_match);
    head.expect = field(request, http::field::expect);
    head.transfer_encoding = request.count(http::field::transfer_encoding) > 1
                                 ? "several"
                                 : field(request, http::field::transfer_encoding);
    head.cors_headers = field(request, http::field::access_control_request_headers);
    if (request.count(http::field::content_length) > 0) {
        const auto length = parser.content_length();
        head.content_length = length ? *length : 0;
    }
    return head;
}

bool has_bare_line_feed(std::string_view lines) {
    for (std::size_t at = lines.find('\n'); at != std::string_view::npos;
         at = lines.find('\n', at + 1)) {
        if (at == 0 || lines[at - 1] != '\r') return true;
    }
    return false;
}

ApiError bare_line_feed() {
    ApiError error;
    error.code = "bad_request";
    error.message = "a line of the chunked body ends with LF; allowed: CR LF (RFC 9112, 7.1)";
    return error;
}

ApiError malformed(const boost::beast::error_code& code) {
    ApiError error;
    error.code = "bad_request";
    error.message = "the request is malformed: " + code.message();
    return error;
}

}  // namespace

RequestReader::RequestReader(std::shared_ptr<Connection> connection, const HttpLimits& limits)
    : connection_(std::move(connection)), limits_(limits) {}

RequestReader::~RequestReader() = default;

RequestReader::Outcome RequestReader::refuse(ApiError error) {
    error_ = std::move(error);
    return Outcome::refused;
}

// Some clients end a body with a CRLF that is not part of it.
void RequestReader::skip_empty_lines() {
    while (connection_->buffered().starts_with("\r\n")) connection_->consume(2);
}

net::awaitable<RequestReader::Outcome> RequestReader::read_head() {
    HeadScan scan;
    parser_ = std::make_unique<Parser>();
    head_ = RequestHead();
    idle_ = true;
    connection_->arm(std::chrono::steady_clock::now() + limits_.idle_time);
    for (;;) {
        if (idle_) skip_empty_lines();
        if (idle_ && !connection_->buffered().empty()) {
            idle_ = false;
            connection_->arm(std::chrono::steady_clock::now() + limits_.header_time);
        }
        const HeadState state = scan.scan(connection_->buffered());
        if (state == HeadState::complete) break;
        if (state != HeadState::incomplete) {
            connection_->disarm();
            co_return refuse(head_scan_error(state));
        }
        const std::size_t count = co_await connection_->read_more(kReadBufferBytesMax);
        if (count > 0) continue;
        const bool late = connection_->expired() && !idle_;
        connection_->disarm();
        if (late) co_return refuse(too_slow("the headers"));
        co_return Outcome::closed;
    }
    connection_->disarm();
    co_return parse_head(scan.size());
}

RequestReader::Outcome RequestReader::parse_head(std::size_t bytes) {
    auto& parser = parser_->beast;
    parser.header_limit(static_cast<std::uint32_t>(kReadBufferBytesMax));
    parser.body_limit(boost::none);  // judged with the head, so that the answer is a 413
    boost::beast::error_code code;
    const std::size_t used = parser.put(net::buffer(connection_->buffered().data(), bytes), code);
    if (code) return refuse(malformed(code));
    if (!parser.is_header_done() || used != bytes) {
        ApiError error;
        error.code = "bad_request";
        error.message = "the request head is malformed";
        return refuse(std::move(error));
    }
    connection_->consume(used);
    parser.body_limit(limits_.body_bytes_max);
    parser.eager(true);
    head_ = head_of(parser);
    return Outcome::ready;
}

RequestReader::Outcome RequestReader::feed_body(bool& need_more) {
    auto& parser = parser_->beast;
    need_more = false;
    while (!parser.is_done()) {
        const std::string_view bytes = connection_->buffered();
        if (bytes.empty()) {
            need_more = true;
            return Outcome::ready;
        }
        boost::beast::error_code code;
        const std::size_t used = parser.put(net::buffer(bytes.data(), bytes.size()), code);
        connection_->consume(used);
        if (code == http::error::body_limit) return refuse(body_too_large(limits_.body_bytes_max));
        if (code && code != http::error::need_more) return refuse(malformed(code));
        if (code == http::error::need_more && used == 0) {
            // Beast waits for the CRLF that ends a chunk's line. A LF alone ends it for some.
            if (has_bare_line_feed(connection_->buffered())) return refuse(bare_line_feed());
            need_more = true;
            return Outcome::ready;
        }
    }
    return Outcome::ready;
}

net::awaitable<RequestReader::Outcome> RequestReader::read_body() {
    const auto start = std::chrono::steady_clock::now();
    bool need_more = false;
    std::size_t received = 0;
    for (;;) {
        const Outcome outcome = feed_body(need_more);
        if (outcome != Outcome::ready || !need_more) {
            connection_->disarm();
            co_return outcome;
        }
        if (connection_->buffered().size() >= kReadBufferBytesMax) {
            connection_->disarm();
            co_return refuse(head_scan_error(HeadState::complete));
        }
        connection_->arm(start + body_time(received, limits_.body_grace));
        const std::size_t count = co_await connection_->read_more(kReadBufferBytesMax);
        received += count;
        if (count > 0) continue;
        const bool late = connection_->expired();
        connection_->disarm();
        if (late) co_return refuse(too_slow("the body"));
        co_return Outcome::closed;
    }
}

std::string RequestReader::take_body() {
    return std::move(parser_->beast.get().body());
}

}  // namespace strata::serve
