// What is wrong with a head, before its body is read.
#include "serve/http/request_head.hpp"

#include <catch2/catch.hpp>

using namespace strata::serve;
using namespace std::chrono_literals;

namespace {

RequestHead post(std::string target = "/v1/chat/completions") {
    RequestHead head;
    head.method = Method::post;
    head.target = std::move(target);
    head.hosts = 1;
    head.host = "localhost";
    head.content_type = "application/json";
    head.content_length = 2;
    return head;
}

std::optional<ErrorKind> refusal_of(const RequestHead& head, const HttpSettings& settings = {}) {
    const HeadVerdict verdict = judge_head(head, settings, nullptr);
    if (!verdict.refusal) return std::nullopt;
    return verdict.refusal->kind;
}

}  // namespace

TEST_CASE("a good head has its route") {
    const HeadVerdict verdict = judge_head(post(), HttpSettings{}, nullptr);
    CHECK_FALSE(verdict.refusal);
    CHECK(verdict.match.route == Route::chat_completions);
}

TEST_CASE("the authority of an absolute target stands in for Host") {
    CHECK(refusal_of(post("http://evil/v1/chat/completions")) == ErrorKind::permission);
    CHECK(refusal_of(post("HTTPS://evil/v1/chat/completions")) == ErrorKind::permission);
    CHECK(refusal_of(post("http://localhost.evil/v1/chat/completions")) == ErrorKind::permission);
    CHECK_FALSE(refusal_of(post("http://localhost:8080/v1/chat/completions")));
    RequestHead head = post("http://127.0.0.1/v1/chat/completions");
    head.host = "evil";  // a proxy's own name does not count
    CHECK_FALSE(refusal_of(head));
    head = post("http://evil/health");
    head.method = Method::get;
    CHECK(refusal_of(head) == ErrorKind::permission);
    // A page's own origin is the authority, too.
    HttpSettings settings;
    settings.access.allowed_hosts = {"box"};
    head = post("http://box/v1/chat/completions");
    head.origin = "http://box";
    CHECK_FALSE(refusal_of(head, settings));
    head.origin = "http://localhost.evil";
    CHECK(refusal_of(head, settings) == ErrorKind::permission);
    head.hosts = 0;
    CHECK(refusal_of(head, settings) == ErrorKind::invalid_request);
}

TEST_CASE("ambiguous framing is refused") {
    RequestHead head = post();
    head.hosts = 2;
    CHECK(refusal_of(head) == ErrorKind::invalid_request);
    head = post();
    head.hosts = 0;
    CHECK(refusal_of(head) == ErrorKind::invalid_request);
    head = post();
    head.transfer_encoding = "chunked";
    CHECK(refusal_of(head) == ErrorKind::invalid_request);  // beside a Content-Length
    head.content_length.reset();
    CHECK_FALSE(refusal_of(head));
    head.transfer_encoding = "gzip, chunked";
    CHECK(refusal_of(head) == ErrorKind::invalid_request);
    head.transfer_encoding = "chunked";
    head.http_1_0 = true;
    CHECK(refusal_of(head) == ErrorKind::invalid_request);
}

TEST_CASE("a POST has a JSON content type") {
    for (const char* good :
         {"application/json", "application/json; charset=utf-8", "APPLICATION/JSON",
          "application/vnd.api+json", "application/json ;x=y"}) {
        RequestHead head = post();
        head.content_type = good;
        INFO(good);
        CHECK_FALSE(refusal_of(head));
    }
    for (const char* bad : {"", "text/plain", "application/x-www-form-urlencoded", "+json",
                            "application/jsonp", "text/plain; application/json"}) {
        RequestHead head = post();
        head.content_type = bad;
        INFO(bad);
        CHECK(refusal_of(head) == ErrorKind::unsupported_media);
    }
}

TEST_CASE("a body that is packed is refused with the header and its value") {
    for (const char* good : {"", "identity", "Identity"}) {
        RequestHead head = post();
        head.content_encoding = good;
        INFO(good);
        CHECK_FALSE(refusal_of(head));
    }
    for (const char* bad : {"gzip", "br", "gzip, identity", "x"}) {
        RequestHead head = post();
        head.content_encoding = bad;
        INFO(bad);
        const HeadVerdict verdict = judge_head(head, HttpSettings{}, nullptr);
        REQUIRE(verdict.refusal);
        CHECK(verdict.refusal->kind == ErrorKind::unsupported_media);
        CHECK(verdict.refusal->message.starts_with("Content-Encoding is " + std::string(bad) +
                                                   "; allowed: identity"));
    }
}

TEST_CASE("a declared body is refused one byte over the limit") {
    HttpSettings settings;
    settings.limits.body_bytes_max = 1000;
    RequestHead head = post();
    head.content_length = 999;
    CHECK_FALSE(refusal_of(head, settings));
    head.content_length = 1000;
    CHECK_FALSE(refusal_of(head, settings));
    head.content_length = 1001;
    CHECK(refusal_of(head, settings) == ErrorKind::request_too_large);
}

TEST_CASE("access comes before the route and the route before the method") {
    HttpSettings settings;
    settings.access.api_keys = {"a-long-key"};
    CHECK(refusal_of(post("/nothing"), settings) == ErrorKind::authentication);
    RequestHead head = post("/nothing");
    head.x_api_key = "a-long-key";
    CHECK(refusal_of(head, settings) == ErrorKind::not_found);
    head = post("/health");
    CHECK(refusal_of(head, settings) == ErrorKind::method_not_allowed);
    CHECK(judge_head(head, settings, nullptr).refusal->allow == "GET, HEAD, OPTIONS");
}

TEST_CASE("only 100-continue is expected") {
    RequestHead head = post();
    head.expect = "100-Continue";
    CHECK_FALSE(refusal_of(head));
    head.expect = "the-spanish-inquisition";
    CHECK(refusal_of(head) == ErrorKind::expectation_failed);
}

TEST_CASE("a body has the grace time and then its least rate") {
    CHECK(body_time(0, 30s) == 30s);
    CHECK(body_time(30 * kBodyBytesPerSecondMin, 30s) == 30s);
    CHECK(body_time(31 * kBodyBytesPerSecondMin, 30s) == 31s);
    CHECK(body_time(64U << 20U, 30s) == 1024s);
}

TEST_CASE("a preflight names what a listed page may send") {
    RequestHead head = post();
    head.method = Method::options;
    head.cors_headers = "content-type, x-stainless-os";
    const HeadVerdict verdict = judge_head(head, HttpSettings{}, nullptr);
    REQUIRE_FALSE(verdict.refusal);
    const Reply off = options_reply(verdict.match, head, false);
    CHECK(off.status == 204);
    CHECK(off.headers.size() == 1);
    const Reply on = options_reply(verdict.match, head, true);
    CHECK(on.headers.size() == 4);
    head.cors_headers = "bad\theader";
    CHECK(options_reply(verdict.match, head, true).headers.size() == 3);
}
