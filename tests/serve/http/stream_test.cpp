// Answers on their way: order and framing, leaving and slow clients, silence, faults. The engine is
// played by the test.
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
// Long for a loaded machine, and before a silent stream is written to.
const Wait kBeforeTheNextSign = serve::HttpLimits{}.keep_alive_interval / 2;

std::string content_of(const std::string& event) {
    const std::string key = R"("delta":{"content":")";
    const std::size_t at = event.find(key);
    if (at == std::string::npos) return {};
    const std::size_t begin = at + key.size();
    return event.substr(begin, event.find('"', begin) - begin);
}

serve::EngineFailure death() {
    serve::EngineFailure failure;
    failure.kind = serve::FailureKind::engine_died;
    failure.text = "the engine ended; send it again, it restarts by itself";
    return failure;
}

}  // namespace

TEST_CASE("a stream's headers and first chunk come before the engine has begun") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(kPath, kStreamBody)));
    const auto head = client.head();
    REQUIRE(head);
    CHECK(head->status == 200);
    CHECK(head->header("content-type") == "text/event-stream; charset=utf-8");
    const auto first = client.event();
    REQUIRE(first);
    CHECK(first->find(R"("delta":{"role":"assistant","content":""},"finish_reason":null)") !=
          std::string::npos);
    CHECK(server.asked(1));
}

TEST_CASE("tokens come out in their order as they are written") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(kPath, kStreamBody)));
    REQUIRE(client.head());
    REQUIRE(client.event());
    REQUIRE(server.asked(1));
    server.on_io([&] { server.engine.admit(0); });
    for (const char* word : {"Hello", " the", " and"}) {
        server.on_io([&] { server.engine.token(0, token_of(word)); });
        const auto event = client.event();
        REQUIRE(event);
        CHECK(content_of(*event) == word);
    }
    server.on_io([&] {
        protocol::DoneLine done;
        done.finish = protocol::Finish::length;
        server.engine.done(0, done);
    });
    CHECK(client.event()->find(R"("finish_reason":"length")") != std::string::npos);
    CHECK(client.event() == "data: [DONE]");
    CHECK_FALSE(client.event());
    CHECK(client.body_ended());
    REQUIRE(client.send(get_request("/health")));  // the connection lives on
    CHECK(client.response()->status == 200);
}

TEST_CASE("a silent stream is kept alive by comments") {
    serve::HttpSettings settings;
    settings.limits.keep_alive_interval = 100ms;
    LocalServer server(settings);
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(kPath, kStreamBody)));
    REQUIRE(client.head());
    REQUIRE(client.event());
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < 3; ++i) CHECK(client.event() == ": ping");
    CHECK(std::chrono::steady_clock::now() - start >= 290ms);
}

TEST_CASE("a client that leaves ends its work wherever it is") {
    LocalServer server;
    std::size_t left = 0;
    for (const char* body : {kStreamBody, kChatBody}) {
        for (const bool admitted : {false, true}) {
            for (const bool hard : {false, true}) {
                INFO(body << admitted << hard);
                HttpClient client(server.port());
                REQUIRE(client.send(post_request(kPath, body)));
                REQUIRE(server.asked(left + 1));
                if (admitted) {
                    server.on_io([&] {
                        server.engine.admit(left);
                        server.engine.token(left, token_of("Hello"));
                    });
                }
                if (hard) {
                    client.reset();
                } else {
                    client.close();
                }
                CHECK(server.cancelled(++left, kBeforeTheNextSign));
            }
        }
    }
    CHECK(server.finished.size() == left);
    CHECK(server.finished[0].finish == serve::AnswerFinish::cancel);
}

TEST_CASE("a client that reads nothing is cancelled and others do not wait") {
    serve::HttpSettings settings;
    settings.limits.unsent_bytes_max = 256U << 10U;
    LocalServer server(settings);
    HttpClient stuck(server.port());
    stuck.small_receive_buffer();
    REQUIRE(stuck.send(post_request(kPath, kStreamBody)));
    REQUIRE(server.asked(1));
    HttpClient other(server.port());
    REQUIRE(other.send(post_request(kPath, kStreamBody)));
    REQUIRE(other.head());
    REQUIRE(other.event());
    REQUIRE(server.asked(2));
    server.on_io([&] { server.engine.admit(0); });
    server.on_io([&] { server.engine.admit(1); });
    const std::int32_t token = token_of("Hello");
    bool listening = true;
    for (int round = 0; round < 400 && listening; ++round) {
        server.on_io([&] {
            for (int i = 0; i < 200 && listening; ++i) listening = server.engine.token(0, token);
            server.engine.token(1, token);
        });
        const auto event = other.event();
        REQUIRE(event);
        CHECK(content_of(*event) == "Hello");
    }
    CHECK(server.cancelled(1));
    CHECK(server.from_io<std::uint64_t>([&] { return server.engine.cancelled[0]; }) ==
          server.from_io<std::uint64_t>([&] { return server.engine.asked[0].id; }));
    // It is not told as one that left.
    const std::string why =
        server.from_io<std::string>([&] { return server.finished.at(0).failure; });
    CHECK(why == "the client was cut off: more than 262144 bytes of its answer were unread");
}

TEST_CASE("a client that takes nothing for too long is told as that") {
    serve::HttpSettings settings;
    settings.limits.write_stall_time = 300ms;
    LocalServer server(settings);
    HttpClient stuck(server.port());
    stuck.small_receive_buffer();
    REQUIRE(stuck.send(post_request(kPath, kStreamBody)));
    REQUIRE(server.asked(1));
    const std::int32_t token = token_of("Hello");
    server.on_io([&] {
        server.engine.admit(0);
        // More than the kernel holds, less than the server does.
        for (int i = 0; i < 12'000; ++i) server.engine.token(0, token);
    });
    REQUIRE(server.cancelled(1));
    const std::string why =
        server.from_io<std::string>([&] { return server.finished.at(0).failure; });
    CHECK(why == "the client was cut off: it read nothing of its answer for 300 ms");
}

TEST_CASE("a stop string ends the answer and is not part of it") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(
        post_request(kPath, R"({"messages":[{"role":"user","content":"hi"}],"stop":["and"]})")));
    REQUIRE(server.asked(1));
    server.on_io([&] {
        server.engine.admit(0);
        server.engine.token(0, token_of("Hello"));
        server.engine.token(0, token_of(" and"));
        server.engine.token(0, token_of(" the"));
        protocol::DoneLine done;
        done.finish = protocol::Finish::cancel;
        done.generated = 3;
        server.engine.done(0, done);
    });
    const auto response = client.response();
    REQUIRE(response);
    CHECK(response->status == 200);
    CHECK(response->body.find(R"("content":"Hello ")") != std::string::npos);
    CHECK(response->body.find(R"("finish_reason":"stop")") != std::string::npos);
    CHECK(server.from_io<std::size_t>([&] { return server.engine.stopped.size(); }) == 1);
}

TEST_CASE("an engine that dies ends a stream with an error event") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(kPath, kStreamBody)));
    REQUIRE(client.head());
    REQUIRE(client.event());
    REQUIRE(server.asked(1));
    server.on_io([&] {
        server.engine.admit(0);
        server.engine.token(0, token_of("Hello"));
        server.engine.fail(0, death());
    });
    REQUIRE(client.event());
    CHECK(client.event() ==
          R"(data: {"error":{"message":"the engine ended; send it again, it restarts by itself",)"
          R"("type":"server_error","param":null,"code":"engine_died"}})");
    CHECK_FALSE(client.event());
    CHECK(client.body_ended());
}

TEST_CASE("an engine that dies ends an unbegun body with a 500") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(kPath, kChatBody)));
    REQUIRE(server.asked(1));
    server.on_io([&] { server.engine.fail(0, death()); });
    const auto response = client.response();
    REQUIRE(response);
    CHECK(response->status == 500);
    CHECK(response->body.find("engine_died") != std::string::npos);
}

TEST_CASE("a full queue is a 429 with a time to come back") {
    serve::ApiSettings api;
    api.queue_max = 2;
    LocalServer server({}, api);
    server.on_io([&] {
        server.engine.now.busy = true;
        server.engine.now.queued = 2;
    });
    const auto response = post(server.port(), kPath, kStreamBody);
    REQUIRE(response);
    CHECK(response->status == 429);
    CHECK(response->header("retry-after") == "5");
    CHECK(response->body.find("rate_limit_error") != std::string::npos);
    server.on_io([&] { server.engine.now.queued = 1; });
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(kPath, kStreamBody)));
    CHECK(client.head()->status == 200);
}

TEST_CASE("while the model loads requests are told when to come back") {
    LocalServer server;
    server.on_io([&] {
        server.engine.now = serve::EngineView{};
        server.engine.now.state = serve::EngineState::loading;
        server.engine.now.load_progress = 0.42;
        server.engine.now.eta = 12s;
    });
    const auto health = get(server.port(), "/health");
    REQUIRE(health);
    CHECK(health->status == 503);
    CHECK(health->header("retry-after") == "12");
    CHECK(health->body ==
          R"({"error":{"code":503,"type":"unavailable_error","message":"Loading model"},)"
          R"("stage":"weights","progress":0.42,"eta_s":12})");
    const auto chat = post(server.port(), kPath, kChatBody);
    CHECK(chat->status == 503);
    CHECK(chat->header("retry-after") == "12");
    CHECK(chat->body.find(R"("code":"model_loading")") != std::string::npos);
}

TEST_CASE("a prompt that does not fit is refused with both numbers") {
    LocalServer server;
    server.on_io([&] {
        protocol::InfoLine info;
        info.context_tokens = 8;
        server.engine.now.info = info;
    });
    const auto response = post(server.port(), kPath,
                               R"({"messages":[{"role":"user","content":"one two three four"}]})");
    REQUIRE(response);
    CHECK(response->status == 400);
    CHECK(response->body.find(R"("type":"exceed_context_size_error")") != std::string::npos);
    CHECK(response->body.find(R"("code":"context_length_exceeded")") != std::string::npos);
    CHECK(response->body.find(R"("n_ctx":8)") != std::string::npos);
    CHECK(response->body.find(R"("n_prompt_tokens":)") != std::string::npos);
}

TEST_CASE("max_tokens is fitted to the room that is left") {
    LocalServer server;
    std::size_t count = 0;
    for (const std::string& max : {std::string(), std::string(R"(,"max_tokens":100000)"),
                                   std::string(R"(,"max_tokens":5)")}) {
        HttpClient client(server.port());
        REQUIRE(client.send(
            post_request(kPath, R"({"messages":[{"role":"user","content":"hi"}])" + max + "}")));
        REQUIRE(server.asked(++count));
        const auto command = server.from_io<protocol::GenCommand>(
            [&] { return server.engine.asked[count - 1].command; });
        const auto prompt = static_cast<std::int64_t>(command.ids.size());
        CHECK(command.max_new == (count == 3 ? 5 : 4096 - prompt));
    }
}
