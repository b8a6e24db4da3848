// One connection after RFC 9112: framing, pipelining, limits and times, on real sockets.
#include <string>

#include <catch2/catch.hpp>

#include "tests/serve/http/local_server.hpp"
#include "tests/support/server_process.hpp"

using namespace strata;
using namespace strata::tests;
using namespace std::chrono_literals;

namespace {

serve::HttpSettings quick() {
    serve::HttpSettings settings;
    settings.limits.header_time = 300ms;
    settings.limits.idle_time = 600ms;
    settings.limits.body_grace = 300ms;
    settings.limits.linger_time = 500ms;
    return settings;
}

int status_of_bytes(LocalServer& server, const std::string& bytes) {
    HttpClient client(server.port());
    if (!client.send(bytes)) return -1;
    const auto response = client.response();
    if (response) CHECK_FALSE(response->header("x-request-id").empty());
    return response ? response->status : 0;
}

}  // namespace

TEST_CASE("requests on one connection are answered in their order") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(get_request("/health") + get_request("/nothing") + get_request("/slots")));
    CHECK(client.response()->status == 200);
    CHECK(client.response()->status == 404);
    CHECK(client.response()->status == 200);
    REQUIRE(client.send(get_request("/health")));
    CHECK(client.response()->status == 200);
}

TEST_CASE("what is sent ahead of an answer is answered after it") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(post_request("/v1/chat/completions", kChatBody) + get_request("/health")));
    REQUIRE(server.asked(1));
    server.answer(0, {token_of("Hello")});
    const auto first = client.response();
    REQUIRE(first);
    CHECK(first->body.find(R"("content":"Hello")") != std::string::npos);
    CHECK(client.response()->status == 200);
}

TEST_CASE("a connection ends when its client says so") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(get_request("/health", "Connection: close\r\n")));
    const auto response = client.response();
    CHECK(response->header("connection") == "close");
    CHECK(client.closed_within(kPatience));
    HttpClient old(server.port());
    REQUIRE(old.send("GET /health HTTP/1.0\r\nHost: localhost\r\n\r\n"));
    CHECK(old.response()->status == 200);
    CHECK(old.closed_within(kPatience));
}

TEST_CASE("malformed requests are refused with 400 and the connection ends") {
    LocalServer server;
    const std::string rest = "Content-Type: application/json\r\n";
    for (const std::string& bytes : std::vector<std::string>{
             "GET /health\r\n\r\n", "GET  /health HTTP/1.1\r\nHost: localhost\r\n\r\n",
             "GET /health HTTP/2.0\r\nHost: localhost\r\n\r\n",
             "GET /health HTTP/1.1\nHost: localhost\n\n", "GET /health HTTP/1.1\r\n\r\n",
             "GET /health HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
             "GET /health HTTP/1.1\r\nHost : localhost\r\n\r\n",
             "GET /health HTTP/1.1\r\nHost: localhost\r\nx: a\r\n b\r\n\r\n",
             "GET /hea\x01lth HTTP/1.1\r\nHost: localhost\r\n\r\n",
             "GET /%zz HTTP/1.1\r\nHost: localhost\r\n\r\n",
             "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + rest +
                 "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
             "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + rest +
                 "Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
             "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + rest +
                 "Content-Length: -2\r\n\r\n{}",
             "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + rest +
                 "Content-Length: 99999999999999999999999\r\n\r\n{}",
             "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + rest +
                 "Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
             "POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\n" + rest +
                 "Transfer-Encoding: chunked\r\n\r\nzz\r\n\r\n",
             "\x16\x03\x01\x02\x01\xfc\x03\x03\r\n\r\n"}) {
        INFO(bytes.substr(0, 160));
        HttpClient client(server.port());
        REQUIRE(client.send(bytes));
        const auto response = client.response();
        REQUIRE(response);
        CHECK(response->status == 400);
        CHECK(response->body.find("invalid_request_error") != std::string::npos);
        CHECK(client.closed_within(kPatience));
    }
}

TEST_CASE("too long heads are answered by 414 and 431") {
    LocalServer server;
    const auto line = [](std::size_t bytes) {
        return "GET /" + std::string(bytes - 14, 'a') + " HTTP/1.1\r\nHost: localhost\r\n\r\n";
    };
    CHECK(status_of_bytes(server, line(serve::kRequestLineBytesMax)) == 404);
    CHECK(status_of_bytes(server, line(serve::kRequestLineBytesMax + 1)) == 414);
    const auto header = [](std::size_t bytes) {
        return get_request("/health", "x: " + std::string(bytes - 3, 'v') + "\r\n");
    };
    CHECK(status_of_bytes(server, header(serve::kHeaderLineBytesMax)) == 200);
    CHECK(status_of_bytes(server, header(serve::kHeaderLineBytesMax + 1)) == 431);
    const auto headers = [](std::size_t count) {
        std::string lines;
        for (std::size_t i = 1; i < count; ++i) lines += "a: b\r\n";  // Host is one of them
        return get_request("/health", lines);
    };
    CHECK(status_of_bytes(server, headers(serve::kHeadersMax)) == 200);
    CHECK(status_of_bytes(server, headers(serve::kHeadersMax + 1)) == 431);
}

TEST_CASE("bodies over the limit are answered by 413 in either framing") {
    serve::HttpSettings settings;
    settings.limits.body_bytes_max = 1000;
    LocalServer server(settings);
    const auto body = [](std::size_t bytes) { return "{" + std::string(bytes - 2, ' ') + "}"; };
    const std::string path = "/v1/chat/completions";
    CHECK(status_of_bytes(server, post_request(path, body(999))) == 400);
    CHECK(status_of_bytes(server, post_request(path, body(1000))) == 400);
    CHECK(status_of_bytes(server, post_request(path, body(1001))) == 413);
    const auto chunked = [&](std::size_t bytes) {
        char size[16];
        std::snprintf(size, sizeof size, "%zx", bytes);
        return "POST " + path +
               " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
               "Transfer-Encoding: chunked\r\n\r\n" +
               size + "\r\n" + body(bytes) + "\r\n0\r\n\r\n";
    };
    CHECK(status_of_bytes(server, chunked(1000)) == 400);
    CHECK(status_of_bytes(server, chunked(1001)) == 413);
}

TEST_CASE("a body far over the limit is answered and not reset") {
    serve::HttpSettings settings;
    settings.limits.body_bytes_max = 1U << 20U;
    LocalServer server(settings);
    HttpClient client(server.port());
    const std::string body(8U << 20U, ' ');
    client.send(post_request("/v1/chat/completions", body));
    const auto response = client.response();
    REQUIRE(response);
    CHECK(response->status == 413);
    CHECK(response->body.find("--max-body-mib") != std::string::npos);
}

TEST_CASE("a client that asks to go on is told to") {
    LocalServer server;
    HttpClient client(server.port());
    const std::string body = "{}";
    const std::string request =
        post_request("/v1/chat/completions", body, "Expect: 100-continue\r\n");
    REQUIRE(client.send(request.substr(0, request.size() - body.size())));
    REQUIRE(client.response()->status == 100);
    REQUIRE(client.send(body));
    CHECK(client.response()->status == 400);
}

TEST_CASE("a refused client that asks to go on is told why not") {
    LocalServer server;
    HttpClient client(server.port());
    const std::string request = post_request("/nothing", "{}", "Expect: 100-continue\r\n");
    REQUIRE(client.send(request.substr(0, request.size() - 2)));
    CHECK(client.response()->status == 404);
}

TEST_CASE("HEAD has the headers of GET and no body") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send("HEAD / HTTP/1.1\r\nHost: localhost\r\n\r\n" + get_request("/health")));
    const auto head = client.response(kPatience, true);
    CHECK(head->status == 200);
    CHECK(head->header("content-length") != "0");
    CHECK(client.response()->status == 200);
}

TEST_CASE("slow headers are answered by 408 and an idle connection just ends") {
    LocalServer server(quick());
    HttpClient slow(server.port());
    REQUIRE(slow.send("GET /health HT"));
    HttpClient idle(server.port());
    const auto response = slow.response();
    REQUIRE(response);
    CHECK(response->status == 408);
    CHECK(slow.closed_within(kPatience));
    CHECK(idle.closed_within(kPatience));
    CHECK_FALSE(idle.response(100ms));
}

TEST_CASE("headers that trickle do not extend their time") {
    LocalServer server(quick());
    HttpClient client(server.port());
    const auto start = std::chrono::steady_clock::now();
    const std::string request = get_request("/health", "x: " + std::string(300, 'v') + "\r\n");
    std::optional<HttpResponse> response;
    for (const char byte : request) {
        if (!client.send(std::string(1, byte))) break;
        response = client.response(20ms);
        if (response) break;
    }
    REQUIRE(response);
    CHECK(response->status == 408);
    CHECK(std::chrono::steady_clock::now() - start < 3s);
}

TEST_CASE("a body that stops is answered by 408") {
    LocalServer server(quick());
    HttpClient client(server.port());
    const std::string request = post_request("/v1/chat/completions", std::string(5000, ' '));
    REQUIRE(client.send(request.substr(0, request.size() - 1000)));
    const auto response = client.response();
    REQUIRE(response);
    CHECK(response->status == 408);
}

TEST_CASE("one connection more than allowed is closed") {
    serve::HttpSettings settings;
    settings.limits.connections_max = 3;
    LocalServer server(settings);
    std::vector<std::unique_ptr<HttpClient>> clients;
    for (int i = 0; i < 3; ++i) {
        clients.push_back(std::make_unique<HttpClient>(server.port()));
        REQUIRE(clients.back()->send(get_request("/health")));
        REQUIRE(clients.back()->response()->status == 200);
    }
    HttpClient fourth(server.port());
    CHECK(fourth.closed_within(kPatience));
    clients.pop_back();
    CHECK(eventually([&] {
        const auto response = get(server.port(), "/health", 2s);
        return response && response->status == 200;
    }));
}

TEST_CASE("a stopping server ends idle connections and finishes answers") {
    LocalServer server;
    HttpClient idle(server.port());
    REQUIRE(idle.send(get_request("/health")));
    REQUIRE(idle.response()->status == 200);
    HttpClient busy(server.port());
    REQUIRE(busy.send(post_request("/v1/chat/completions", kChatBody)));
    REQUIRE(server.asked(1));
    server.on_io([&] { server.http->stop_accepting(); });
    CHECK(idle.closed_within(kPatience));
    server.answer(0, {token_of("Hello")});
    const auto response = busy.response();
    REQUIRE(response);
    CHECK(response->status == 200);
    CHECK(busy.closed_within(kPatience));
    HttpClient late(server.port());
    CHECK_FALSE(late.connected());
}

TEST_CASE("a chunked body whose lines end with LF alone is refused at once") {
    LocalServer server;
    const std::string head =
        "POST /tokenize HTTP/1.1\r\nHost: localhost\r\n"
        "Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    const std::string body = R"({"content":"hi"})";
    for (const std::string& chunks :
         {std::string("10\n") + body + "\n0\n\n", std::string("10\n"),
          "10\r\n" + body + "\n0\r\n\r\n", "10\r\n" + body + "\r\n0\n\n",
          "10\r\n" + body + "\r\n0\r\nx: y\n\n"}) {
        INFO(chunks);
        HttpClient client(server.port());
        REQUIRE(client.send(head + chunks));
        const auto response = client.response(20s);  // a slow body has 30
        REQUIRE(response);
        CHECK(response->status == 400);
    }
    // With CR LF it is taken, also byte by byte.
    HttpClient client(server.port());
    for (const char c : head + "10\r\n" + body + "\r\n0\r\nx: y\r\n\r\n") {
        REQUIRE(client.send(std::string(1, c)));
    }
    CHECK(client.response()->status == 200);
}

TEST_CASE("a query value that is given twice is refused with its name") {
    LocalServer server;
    for (const char* request : {"/metrics?rows=1&rows=2", "/metrics?format=json&rows=%zz",
                                "/slots?fail_on_no_slot=1&fail_on_no_slot=0"}) {
        INFO(request);
        const auto response = get(server.port(), request);
        CHECK(response->status == 400);
        CHECK(response->body.find(R"("code":"invalid_value")") != std::string::npos);
    }
    CHECK(get(server.port(), "/metrics?rows=1")->status == 200);
}

TEST_CASE("a packed body is refused with the header that says so") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(post_request("/tokenize", R"({"content":"hi"})",
                                     "Content-Encoding: gzip\r\nContent-Encoding: br\r\n")));
    const auto response = client.response();
    REQUIRE(response);
    CHECK(response->status == 415);
    CHECK(response->body.find("Content-Encoding is gzip, br; allowed: identity") !=
          std::string::npos);
}
