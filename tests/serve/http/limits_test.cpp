// Every limit of a request at one below, at and one above it, as a client meets it. What a body may
// hold is asked at /apply-template, which reads a body as chat does and answers without an engine.
#include <functional>
#include <string>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <catch2/catch.hpp>

#include "serve/http/outbox.hpp"
#include "serve/http/request_head.hpp"
#include "tests/serve/http/local_server.hpp"
#include "tests/support/server_process.hpp"

using namespace strata;
using namespace strata::tests;
using namespace std::chrono_literals;

namespace {

using Bytes = std::function<std::string(std::size_t)>;

struct Limit {
    const char* name;
    std::size_t most;
    Bytes request;
    int good;
    int bad;
};

int status_of_bytes(LocalServer& server, const std::string& bytes) {
    HttpClient client(server.port());
    if (!client.send(bytes)) return -1;
    const auto response = client.response();
    return response ? response->status : 0;
}

void check_limits(LocalServer& server, const std::vector<Limit>& limits) {
    for (const Limit& limit : limits) {
        INFO(limit.name);
        CHECK(status_of_bytes(server, limit.request(limit.most - 1)) == limit.good);
        CHECK(status_of_bytes(server, limit.request(limit.most)) == limit.good);
        CHECK(status_of_bytes(server, limit.request(limit.most + 1)) == limit.bad);
    }
}

std::string template_request(const std::string& body) {
    return post_request("/apply-template", body);
}

std::string with(const std::string& field) {
    return template_request(R"({"messages":[{"role":"user","content":"hi"}],)" + field + "}");
}

std::string repeated(const std::string& item, std::size_t count) {
    std::string out = "[";
    for (std::size_t i = 0; i < count; ++i) out += (i > 0 ? "," : "") + item;
    return out + "]";
}

// Header lines of `bytes` in all with their line ends, the Host line among them.
std::string headers_of(std::size_t bytes) {
    const std::size_t host = std::string("Host: localhost\r\n").size();
    std::string lines;
    for (std::size_t left = bytes - host; left > 0;) {
        std::size_t line = std::min<std::size_t>(left, 7'000);
        if (left - line > 0 && left - line < 10) line -= 10;  // no rest too short for a header
        lines += "x: " + std::string(line - 5, 'v') + "\r\n";
        left -= line;
    }
    return get_request("/health", lines);
}

std::string lists(std::size_t depth) {
    return std::string(depth, '[') + std::string(depth, ']');
}

std::string tool_of(std::size_t bytes) {
    std::string text = R"({"type":"function","function":{"name":"f","description":""}})";
    text.insert(text.size() - 3, std::string(bytes - text.size(), 'd'));
    return text;
}

}  // namespace

TEST_CASE("each limit of a head is met at one below and at it and refused one above") {
    LocalServer server;
    check_limits(server, {{"request line", serve::kRequestLineBytesMax,
                           [](std::size_t n) {
                               return "GET /" + std::string(n - 14, 'a') +
                                      " HTTP/1.1\r\nHost: localhost\r\n\r\n";
                           },
                           404, 414},
                          {"one header", serve::kHeaderLineBytesMax,
                           [](std::size_t n) {
                               return get_request("/health",
                                                  "x: " + std::string(n - 3, 'v') + "\r\n");
                           },
                           200, 431},
                          {"all headers", serve::kHeadersBytesMax, headers_of, 200, 431},
                          {"number of headers", serve::kHeadersMax,
                           [](std::size_t n) {
                               std::string lines;
                               for (std::size_t i = 1; i < n; ++i) lines += "a: b\r\n";
                               return get_request("/health", lines);
                           },
                           200, 431}});
}

TEST_CASE("each limit of a body is met at one below and at it and refused one above") {
    LocalServer server;
    const std::string user = R"({"role":"user","content":"x"})";
    const std::string part = R"({"type":"text","text":"x"})";
    const std::string tool = R"({"type":"function","function":{"name":"f"}})";
    check_limits(
        server,
        {{"depth", serve::kJsonDepthMax,  // the object itself is one level
          [](std::size_t n) { return with(R"("x":)" + lists(n - 1)); }, 200, 400},
         {"messages", serve::kMessagesMax,
          [&](std::size_t n) {
              return template_request(R"({"messages":)" + repeated(user, n) + "}");
          },
          200, 400},
         {"content parts", serve::kContentPartsMax,
          [&](std::size_t n) {
              return template_request(R"({"messages":[{"role":"user","content":)" +
                                      repeated(part, n) + "}]}");
          },
          200, 400},
         {"tools", serve::kToolsMax,
          [&](std::size_t n) { return with(R"("tools":)" + repeated(tool, n)); }, 200, 400},
         {"one schema", serve::kToolBytesMax,
          [](std::size_t n) { return with(R"("tools":[)" + tool_of(n) + "]"); }, 200, 400},
         {"tool calls of a message", serve::kToolCallsMax,
          [](std::size_t n) {
              return template_request(R"({"messages":[{"role":"assistant","tool_calls":)" +
                                      repeated(R"({"function":{"name":"f"}})", n) + "}]}");
          },
          200, 400},
         {"stop strings", serve::kStopStringsMax,
          [](std::size_t n) { return with(R"("stop":)" + repeated("\"s\"", n)); }, 200, 400},
         {"a stop string", serve::kStopStringBytesMax,
          [](std::size_t n) { return with(R"("stop":")" + std::string(n, 's') + "\""); }, 200, 400},
         {"top_logprobs", static_cast<std::size_t>(serve::kTopLogprobsAskedMax),
          [](std::size_t n) {
              return with(R"("logprobs":true,"top_logprobs":)" + std::to_string(n));
          },
          200, 400}});
    CHECK(status_of_bytes(server, with(R"("n":0)")) == 400);
    CHECK(status_of_bytes(server, with(R"("n":1)")) == 200);
    CHECK(status_of_bytes(server, with(R"("n":2)")) == 400);
}

TEST_CASE("entries of logit_bias are counted before they are refused") {
    LocalServer server;
    for (const bool pairs : {false, true}) {
        for (const std::size_t more : {0U, 1U, 2U}) {
            const std::size_t count = serve::kLogitBiasMax - 1 + more;
            std::string entries;
            for (std::size_t i = 0; i < count; ++i) {
                const std::string id = std::to_string(i);
                entries += i > 0 ? "," : "";
                entries += pairs ? "[" + id + ",1]" : "\"" + id + "\":1";
            }
            const auto response =
                post(server.port(), "/apply-template",
                     R"({"messages":[{"role":"user","content":"hi"}],)"
                     R"("logit_bias":)" +
                         (pairs ? "[" + entries + "]" : "{" + entries + "}") + "}");
            REQUIRE(response);
            INFO(count << response->body);
            CHECK(response->status == 400);
            const bool counted =
                response->body.find(std::to_string(count) + " entries; allowed: at most 1024") !=
                std::string::npos;
            CHECK(counted == (count > 1024));
        }
    }
}

TEST_CASE("the size of a body is limited in either framing") {
    serve::HttpSettings settings;
    settings.limits.body_bytes_max = 1000;
    LocalServer server(settings);
    const auto body = [](std::size_t n) {
        const std::string text = R"({"messages":[{"role":"user","content":"hi"}]})";
        return text + std::string(n - text.size(), ' ');
    };
    check_limits(server, {{"length", 1000, [&](std::size_t n) { return template_request(body(n)); },
                           200, 413},
                          {"chunks", 1000,
                           [&](std::size_t n) {
                               char size[16];
                               std::snprintf(size, sizeof size, "%zx", n);
                               return "POST /apply-template HTTP/1.1\r\nHost: localhost\r\n"
                                      "Content-Type: application/json\r\n"
                                      "Transfer-Encoding: chunked\r\n\r\n" +
                                      std::string(size) + "\r\n" + body(n) + "\r\n0\r\n\r\n";
                           },
                           200, 413}});
}

TEST_CASE("one connection more than allowed is closed and the others stay") {
    serve::HttpSettings settings;
    settings.limits.connections_max = 3;
    LocalServer server(settings);
    std::vector<std::unique_ptr<HttpClient>> clients;
    for (int i = 0; i < 4; ++i) {
        clients.push_back(std::make_unique<HttpClient>(server.port()));
        clients.back()->send(get_request("/health"));
        const auto response = clients.back()->response();
        CHECK(response.has_value() == (i < 3));
    }
    CHECK(clients[3]->closed_within(kPatience));
    clients[0]->close();
    CHECK(eventually([&] {
        const auto again = get(server.port(), "/health", 2s);
        return again && again->status == 200;
    }));
}

TEST_CASE("the queue takes as many as allowed and refuses one more") {
    serve::ApiSettings api;
    api.queue_max = 2;
    LocalServer server({}, api);
    for (const std::size_t waiting : {0U, 1U, 2U}) {
        server.on_io([&] {
            server.engine.now.busy = true;
            server.engine.now.queued = waiting;
        });
        HttpClient client(server.port());
        REQUIRE(client.send(post_request("/v1/chat/completions", kStreamBody)));
        const auto head = client.head();
        REQUIRE(head);
        CHECK(head->status == (waiting < 2 ? 200 : 429));
    }
}

TEST_CASE("headers may take their time and no more") {
    serve::HttpSettings settings;
    settings.limits.header_time = 2s;
    LocalServer server(settings);
    const std::string request = get_request("/health");
    for (const Wait wait : {Wait(300), kPatience}) {
        HttpClient client(server.port());
        REQUIRE(client.send(request.substr(0, 10)));
        const auto early = client.response(wait);
        if (!early) client.send(request.substr(10));
        const auto response = early ? early : client.response();
        REQUIRE(response);
        CHECK(response->status == (wait < settings.limits.header_time ? 200 : 408));
    }
}

TEST_CASE("an idle connection is kept for its time and no longer") {
    serve::HttpSettings settings;
    settings.limits.idle_time = 2s;
    LocalServer server(settings);
    HttpClient client(server.port());
    REQUIRE(client.send(get_request("/health")));
    REQUIRE(client.response());
    CHECK_FALSE(client.closed_within(300ms));
    REQUIRE(client.send(get_request("/health")));
    REQUIRE(client.response());
    CHECK(client.closed_within(kPatience));
}

TEST_CASE("a body counts as slow below its rate after the grace") {
    constexpr std::size_t kRate = serve::kBodyBytesPerSecondMin;
    CHECK(serve::body_time(0, 30s) == 30s);
    CHECK(serve::body_time(30 * kRate - 1, 30s) == 30s);
    CHECK(serve::body_time(30 * kRate, 30s) == 30s);
    CHECK(serve::body_time(31 * kRate, 30s) == 31s);
}

TEST_CASE("unsent bytes of a stream are held up to their limit") {
    boost::asio::io_context io;
    constexpr std::size_t kMost = 1000;
    for (const std::size_t bytes : {kMost - 1, kMost, kMost + 1}) {
        serve::ResponseFrame frame;
        frame.http_1_0 = true;  // frames as they are
        bool told = false;
        serve::Outbox outbox(io.get_executor(), frame, kMost, [&] { told = true; });
        outbox.begin_events();
        outbox.take();
        outbox.written();
        outbox.events(std::string(kMost / 2, 'a'));
        outbox.take();  // on its way, not with the client
        outbox.events(std::string(bytes - kMost / 2, 'b'));
        INFO(bytes);
        CHECK(outbox.stuck() == (bytes > kMost));
        CHECK(told == (bytes > kMost));
    }
}
