// A client that has said all it will say and waits (shutdown of its sending half), and one that
// left in the same words: the first gets its whole answer, the second ends its work.
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/serve/http/local_server.hpp"
#include "tests/support/server_process.hpp"

using namespace strata;
using namespace strata::tests;
using namespace std::chrono_literals;

namespace {

const std::string kPath = "/v1/chat/completions";
constexpr auto kLongerThanTheCheck = 300ms;
// Long for a loaded machine, and before a silent stream is written to.
const Wait kBeforeTheNextSign = serve::HttpLimits{}.keep_alive_interval / 2;

// A request that the engine has to answer.
struct Asked {
    const char* path;
    const char* body;
    bool stream;
};

const std::vector<Asked> kAsked = {
    {"/v1/chat/completions", kChatBody, false},
    {"/v1/chat/completions", kStreamBody, true},
    {"/v1/completions", R"({"prompt":"hi"})", false},
    {"/v1/completions", R"({"prompt":"hi","stream":true})", true},
};

// The final response behind interim ones, whose number is counted.
std::optional<HttpResponse> final_response(HttpClient& client, int& interim) {
    for (;;) {
        auto response = client.response();
        if (!response || response->status != 100) return response;
        ++interim;
    }
}

std::optional<HttpResponse> final_response(HttpClient& client) {
    int interim = 0;
    return final_response(client, interim);
}

std::string http_1_0(const std::string& path, const std::string& body) {
    return "POST " + path +
           " HTTP/1.0\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
           std::to_string(body.size()) + "\r\n\r\n" + body;
}

serve::HttpSettings often_asked() {
    serve::HttpSettings settings;
    settings.limits.keep_alive_interval = 100ms;
    return settings;
}

}  // namespace

TEST_CASE("a client that shut down its sending half gets what the engine writes") {
    LocalServer server;
    std::size_t count = 0;
    for (const Asked& asked : kAsked) {
        INFO(asked.path << " " << asked.body);
        HttpClient client(server.port());
        REQUIRE(client.send(post_request(asked.path, asked.body)));
        client.half_close();
        REQUIRE(server.asked(count + 1));
        std::this_thread::sleep_for(kLongerThanTheCheck);
        server.answer(count++, {token_of("Hello"), token_of(" and")});
        int interim = 0;
        const auto response = final_response(client, interim);
        REQUIRE(response);
        CHECK(response->status == 200);
        CHECK(response->body.find("Hello") != std::string::npos);
        CHECK(response->body.find(" and") != std::string::npos);
        CHECK((response->body.find("[DONE]") != std::string::npos) == asked.stream);
        CHECK(interim == (asked.stream ? 0 : 1));
        CHECK(client.closed_within(kPatience));
    }
    CHECK(server.from_io<std::size_t>([&] { return server.engine.cancelled.size(); }) == 0);
}

TEST_CASE("a client that shut down its sending half gets what needs no engine") {
    LocalServer server;
    for (const auto& [path, body] :
         std::vector<std::pair<std::string, std::string>>{{"/tokenize", R"({"content":"hi"})"},
                                                          {"/detokenize", R"({"tokens":[1]})"},
                                                          {"/apply-template", kChatBody},
                                                          {"/tokenize", R"({"content":1})"},
                                                          {"/nothing", "{}"}}) {
        for (const bool old : {false, true}) {
            INFO(path << " " << old);
            HttpClient client(server.port());
            REQUIRE(client.send(old ? http_1_0(path, body) : post_request(path, body)));
            client.half_close();
            const auto response = client.response();  // and nothing before it
            REQUIRE(response);
            CHECK(response->status == (path == "/nothing"                      ? 404
                                       : body.find(":1}") != std::string::npos ? 400
                                                                               : 200));
            CHECK(client.closed_within(kPatience));
        }
    }
    HttpClient client(server.port());
    REQUIRE(client.send(get_request("/health")));
    client.half_close();
    CHECK(client.response()->status == 200);
}

TEST_CASE("complete requests sent ahead of a half close are answered in their order") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(kPath, kChatBody) + get_request("/nothing") +
                        post_request(kPath, kStreamBody) +
                        post_request("/tokenize", R"({"content":"hi"})") +
                        post_request(kPath, kChatBody).substr(0, 60)));
    client.half_close();
    for (const std::size_t index : {0U, 1U}) {
        REQUIRE(server.asked(index + 1));
        std::this_thread::sleep_for(kLongerThanTheCheck);
        server.answer(index, {token_of("Hello")});
    }
    CHECK(final_response(client)->body.find("Hello") != std::string::npos);
    CHECK(final_response(client)->status == 404);
    CHECK(final_response(client)->body.find("[DONE]") != std::string::npos);
    CHECK(final_response(client)->body.find("tokens") != std::string::npos);
    CHECK_FALSE(client.response());  // the last one never came whole
    CHECK(client.closed_within(kPatience));
    CHECK(server.from_io<std::size_t>([&] { return server.engine.asked.size(); }) == 2);
}

TEST_CASE("a request that is cut short by the end of what its client sends is none") {
    LocalServer server;
    const std::string request = post_request(kPath, kChatBody);
    for (const std::size_t bytes : {std::size_t{0}, std::size_t{20}, request.size() - 1}) {
        HttpClient client(server.port());
        if (bytes > 0) REQUIRE(client.send(request.substr(0, bytes)));
        client.half_close();
        CHECK_FALSE(client.response());
        CHECK(client.closed_within(kPatience));
    }
    CHECK(server.from_io<std::size_t>([&] { return server.engine.asked.size(); }) == 0);
}

TEST_CASE("a client that leaves after it shut down its sending half ends its work") {
    LocalServer server(often_asked());
    std::size_t left = 0;
    for (const Asked& asked : kAsked) {
        for (const bool admitted : {false, true}) {
            INFO(asked.path << " " << asked.body << " " << admitted);
            HttpClient client(server.port());
            REQUIRE(client.send(post_request(asked.path, asked.body)));
            client.half_close();
            REQUIRE(server.asked(left + 1));
            if (admitted) {
                server.on_io([&] {
                    server.engine.admit(left);
                    server.engine.token(left, token_of("Hello"));
                });
            }
            CHECK_FALSE(server.cancelled(left + 1, kLongerThanTheCheck));
            client.close();
            CHECK(server.cancelled(++left, kBeforeTheNextSign));
        }
    }
}

TEST_CASE("a client that leaves without a word is missed in every form of request") {
    LocalServer server;
    std::size_t left = 0;
    for (const Asked& asked : kAsked) {
        INFO(asked.path << " " << asked.body);
        HttpClient client(server.port());
        REQUIRE(client.send(post_request(asked.path, asked.body)));
        REQUIRE(server.asked(left + 1));
        client.close();
        CHECK(server.cancelled(++left, kBeforeTheNextSign));
    }
}

TEST_CASE("a client that sent more ahead than is read is missed when it leaves") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(kPath, kChatBody)));
    REQUIRE(server.asked(1));
    REQUIRE(client.send(std::string(serve::kReadAheadBytesMax + 1000, 'x')));
    CHECK_FALSE(server.cancelled(1, kLongerThanTheCheck));
    client.close();
    CHECK(server.cancelled(1, serve::HttpLimits{}.keep_alive_interval + kPatience));
}

TEST_CASE("an HTTP 1 0 client may shut down its sending half and is told nothing but its answer") {
    LocalServer server(often_asked());
    HttpClient client(server.port());
    REQUIRE(client.send(http_1_0(kPath, kChatBody)));
    client.half_close();
    REQUIRE(server.asked(1));
    std::this_thread::sleep_for(kLongerThanTheCheck);
    server.answer(0, {token_of("Hello")});
    const auto response = client.response();
    REQUIRE(response);
    CHECK(response->status == 200);
    CHECK(response->body.find("Hello") != std::string::npos);
}

TEST_CASE("an HTTP 1 0 client that left is missed when its machine has forgotten it") {
    serve::HttpSettings settings;
    settings.limits.still_there_time = 1s;
    LocalServer server(settings);
    HttpClient client(server.port());
    client.forgotten_after(1);
    REQUIRE(client.send(http_1_0(kPath, kChatBody)));
    REQUIRE(server.asked(1));
    client.close();
    CHECK(server.cancelled(1, 20s));
}
