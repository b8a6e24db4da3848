// strata-serve as a process, with the fake engine: what only shows between real processes.
#include <algorithm>
#include <csignal>
#include <sstream>
#include <string>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <catch2/catch.hpp>

#include "tests/support/process_epilogue.hpp"
#include "tests/support/server_process.hpp"

using namespace strata::tests;
using namespace std::chrono_literals;

namespace {

const std::string kPath = "/v1/chat/completions";

std::string chat(const std::string& fields) {
    return R"({"messages":[{"role":"user","content":"hi"}])" + fields + "}";
}

// More than a minute of the slow engine: longer than any wait for its end.
const std::string kStream = R"(,"stream":true,"max_tokens":3500)";

ServerOptions engine_with(std::vector<std::string> engine) {
    ServerOptions options;
    options.engine = std::move(engine);
    return options;
}

ServerOptions slow_engine() {
    return engine_with({"--tokens-per-second", "50"});
}

// A stream whose first token is here.
void begin_stream(HttpClient& client) {
    REQUIRE(client.send(post_request(kPath, chat(kStream))));
    REQUIRE(client.head()->status == 200);
    for (int i = 0; i < 3; ++i) REQUIRE(client.event());
}

// 1,000 chunks a second for the five seconds of grace: more than the kernel holds for a client with
// a small window, less than the limit on unsent bytes.
ServerOptions engine_far_ahead() {
    ServerOptions options = engine_with({"--tokens-per-second", "1000"});
    options.server = {"--max-context", "100000"};
    return options;
}

void begin_to_fall_behind(HttpClient& client) {
    constexpr int kWindowBytes = 64 << 10;
    client.small_receive_buffer(kWindowBytes);
    REQUIRE(client.send(post_request(kPath, chat(R"(,"stream":true,"max_tokens":30000)"))));
    REQUIRE(client.head());
}

// The server is told to end; until its engine has ended the client takes a tenth of what is
// written. (Of one that takes nothing TCP drops segments, and repeats them seconds apart.)
void fall_behind_until_the_end(const ServerProcess& server, HttpClient& client) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    server.signal(SIGTERM);
    while (server.log().find("while it was shut down") == std::string::npos) {
        REQUIRE(std::chrono::steady_clock::now() < deadline);
        REQUIRE(client.event());
        pause(10ms);
    }
}

std::string status_of(const ServerProcess& server) {
    const auto response = get(server.port(), "/status");
    return response ? response->body : "";
}

bool status_becomes(const ServerProcess& server, const std::string& words) {
    return eventually([&] { return status_of(server).find(words) != std::string::npos; });
}

// How long a server takes to end that has idle connections and no request.
Wait end_with_idle_connections(int signal_number) {
    ServerProcess server(engine_with({}));
    HttpClient used(server.port());
    REQUIRE(used.send(get_request("/health")));
    REQUIRE(used.response());
    HttpClient streamed(server.port());
    REQUIRE(streamed.send(post_request(kPath, chat(R"(,"stream":true,"max_tokens":2)"))));
    while (streamed.event()) {
    }
    REQUIRE(streamed.body_ended());
    const HttpClient unused(server.port());
    REQUIRE(server.engine_pid() > 0);
    const auto began = std::chrono::steady_clock::now();
    server.signal(signal_number);
    CHECK(used.closed_within(kPatience));
    CHECK(server.wait_exit() == 0);
    const auto took = std::chrono::steady_clock::now() - began;
    CHECK(server.log_has("leaving"));
    return std::chrono::duration_cast<Wait>(took);
}

}  // namespace

TEST_CASE("a chat is answered through the engine") {
    ServerProcess server(engine_with({"--answer-tokens", "5"}));
    const auto response = post(server.port(), kPath, chat(""));
    REQUIRE(response);
    CHECK(response->status == 200);
    CHECK(response->body.find(R"("completion_tokens":5)") != std::string::npos);
    CHECK(response->body.find(R"("finish_reason":"stop")") != std::string::npos);
    CHECK(server.log_has(response->header("x-request-id")));
}

TEST_CASE("requests are answered one after the other") {
    ServerProcess server(engine_with({"--tokens-per-second", "100", "--answer-tokens", "10"}));
    std::vector<std::unique_ptr<HttpClient>> clients;
    for (int i = 0; i < 8; ++i) {
        clients.push_back(std::make_unique<HttpClient>(server.port()));
        REQUIRE(clients.back()->send(post_request(kPath, chat(""))));
    }
    for (const auto& client : clients) {
        const auto response = client->response();
        REQUIRE(response);
        CHECK(response->status == 200);
        CHECK(response->body.find(R"("completion_tokens":10)") != std::string::npos);
    }
}

TEST_CASE("a running request stops when its client leaves") {
    ServerProcess server(slow_engine());
    HttpClient client(server.port());
    begin_stream(client);
    CHECK(status_of(server).find("generating") != std::string::npos);
    client.close();
    CHECK(status_becomes(server, R"("state":"idle")"));
    CHECK(server.log_has("the client left"));
}

TEST_CASE("a waiting request leaves the queue when its client leaves") {
    ServerProcess server(slow_engine());
    HttpClient running(server.port());
    begin_stream(running);
    HttpClient waiting(server.port());
    REQUIRE(waiting.send(post_request(kPath, chat(kStream))));
    REQUIRE(status_becomes(server, R"("queued":1)"));
    waiting.close();
    CHECK(status_becomes(server, R"("queued":0)"));
    CHECK(running.event());
}

TEST_CASE("one request over the queue is refused and the others stay") {
    ServerOptions options = slow_engine();
    options.server = {"--max-queue", "2"};
    ServerProcess server(options);
    HttpClient running(server.port());
    begin_stream(running);
    HttpClient first(server.port());
    HttpClient second(server.port());
    for (HttpClient* client : {&first, &second}) {
        REQUIRE(client->send(post_request(kPath, chat(kStream))));
        REQUIRE(client->head()->status == 200);
    }
    REQUIRE(status_becomes(server, R"("queued":2)"));
    const auto refused = post(server.port(), kPath, chat(""));
    REQUIRE(refused);
    CHECK(refused->status == 429);
    CHECK(refused->header("retry-after") == "5");
    CHECK(running.event());
}

TEST_CASE("an engine that is killed in mid answer costs that answer only") {
    ServerProcess server(slow_engine());
    HttpClient client(server.port());
    begin_stream(client);
    HttpClient waiting(server.port());
    REQUIRE(waiting.send(post_request(kPath, chat(R"(,"max_tokens":3)"))));
    REQUIRE(status_becomes(server, R"("queued":1)"));
    const pid_t engine = server.engine_pid();
    REQUIRE(engine > 0);
    ::kill(engine, SIGKILL);
    std::string last;
    while (const auto event = client.event()) last = *event;
    CHECK(client.body_ended());
    CHECK(last.find(R"({"error":{"message":)") != std::string::npos);
    CHECK(last.find(R"("type":"server_error")") != std::string::npos);
    const auto response = waiting.response();
    REQUIRE(response);
    CHECK(response->status == 200);
    const auto next = post(server.port(), kPath, chat(R"(,"max_tokens":3)"));
    REQUIRE(next);
    CHECK(next->status == 200);
    CHECK(get(server.port(), "/metrics")->body.find(R"("epoch":2)") != std::string::npos);
}

TEST_CASE("no engine outlives a server that is killed") {
    ServerProcess server(slow_engine());
    HttpClient client(server.port());
    begin_stream(client);
    const pid_t engine = server.engine_pid();
    REQUIRE(engine > 0);
    server.signal(SIGKILL);
    CHECK(server.wait_exit() == 128 + SIGKILL);
    CHECK(eventually([&] { return !process_lives(engine); }));
}

TEST_CASE("an orderly end lets a short answer finish and leaves nothing") {
    const ProcessEpilogue epilogue;
    {
        ServerProcess server(engine_with({"--tokens-per-second", "50", "--answer-tokens", "25"}));
        HttpClient client(server.port());
        begin_stream(client);
        server.signal(SIGTERM);
        std::string last;
        while (const auto event = client.event()) last = *event;
        CHECK(last == "data: [DONE]");
        CHECK(server.wait_exit() == 0);
        CHECK_FALSE(HttpClient(server.port()).connected());
    }
    CHECK(epilogue.leftovers() == "");
}

TEST_CASE("idle connections do not hold up the end and a hangup is an orderly one") {
    const ProcessEpilogue epilogue;
    for (const int number : {SIGTERM, SIGHUP}) {
        // A running request has five seconds. A loaded machine may be late once, not each time.
        constexpr int kRounds = 3;
        constexpr Wait kAtOnce = 3s;
        Wait fastest = Wait::max();
        for (int round = 0; round < kRounds && fastest >= kAtOnce; ++round) {
            fastest = std::min(fastest, end_with_idle_connections(number));
        }
        CHECK(fastest < kAtOnce);
    }
    CHECK(epilogue.leftovers() == "");
}

TEST_CASE("the last words of a stream reach a client that is behind") {
    // The server waits two seconds for its client. A loaded machine may need more once, not each
    // time; without that wait those words never come (the next test).
    constexpr int kRounds = 4;
    bool came = false;
    for (int round = 0; round < kRounds && !came; ++round) {
        ServerProcess server(engine_far_ahead());
        HttpClient client(server.port());
        begin_to_fall_behind(client);
        fall_behind_until_the_end(server, client);
        std::string last;
        while (const auto event = client.event()) last = *event;
        came = client.body_ended();
        if (came) CHECK(last.find(R"({"error":{"message":)") != std::string::npos);
        CHECK(server.wait_exit() == 0);
    }
    CHECK(came);
}

// The control of the one before: what a server that does not wait still had to say is lost, so it
// was not the kernel that kept those words.
TEST_CASE("a server that is told not to wait takes the last words of a stream along") {
    ServerProcess server(engine_far_ahead());
    HttpClient client(server.port());
    begin_to_fall_behind(client);
    fall_behind_until_the_end(server, client);
    server.signal(SIGTERM);
    CHECK(server.wait_exit() == 130);
    std::string last;
    while (const auto event = client.event()) last = *event;
    CHECK_FALSE(client.body_ended());
    CHECK(last.find(R"({"error":{"message":)") == std::string::npos);
}

TEST_CASE("a client that shut down its sending half is answered and missed when it leaves") {
    ServerProcess server(slow_engine());
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(kPath, chat(R"(,"max_tokens":25)"))));
    client.half_close();
    auto response = client.response();
    while (response && response->status == 100) response = client.response();
    REQUIRE(response);
    CHECK(response->body.find(R"("completion_tokens":25)") != std::string::npos);
    for (const std::string& fields : {std::string(), std::string(R"(,"stream":true)")}) {
        INFO(fields);
        HttpClient leaving(server.port());
        REQUIRE(leaving.send(post_request(kPath, chat(R"(,"max_tokens":3500)" + fields))));
        leaving.half_close();
        REQUIRE(status_becomes(server, "generating"));
        leaving.close();
        CHECK(status_becomes(server, R"("state":"idle")"));
    }
}

TEST_CASE("a log in JSON is one object a line and a request has its numbers in it") {
    ServerOptions options =
        engine_with({"--answer-tokens", "5", "--do", "err a \"quoted\" line", "--do", "ready"});
    options.server = {"--log-format", "json"};
    ServerProcess server(options);
    const auto response = post(server.port(), kPath, chat(""));
    REQUIRE(response);
    REQUIRE(server.log_has(R"("event":"request")"));
    std::istringstream lines(server.log());
    bool engine = false;
    bool request = false;
    for (std::string line; std::getline(lines, line);) {
        INFO(line);
        const boost::json::value value = boost::json::parse(line);
        CHECK(value.at("time").to_number<double>() > 1e9);
        CHECK(value.at("uptime_s").to_number<double>() >= 0);
        CHECK(value.at("level").is_string());
        engine = engine || (value.at("from").as_string() == "engine" &&
                            value.at("text").as_string() == "a \"quoted\" line");
        if (!value.as_object().contains("event")) continue;
        request = true;
        const boost::json::string id(response->header("x-request-id"));
        CHECK(value.at("request_id").as_string() == id);
        CHECK(value.at("finish").as_string() == "stop");
        CHECK(value.at("output_tokens").as_int64() == 5);
        CHECK(value.at("prompt_tokens").as_int64() > 0);
    }
    CHECK(engine);
    CHECK(request);
}

TEST_CASE("a second signal ends the server at once") {
    ServerProcess server(slow_engine());
    HttpClient client(server.port());
    begin_stream(client);
    const pid_t engine = server.engine_pid();
    server.signal(SIGINT);
    REQUIRE(server.log_has("leaving"));
    server.signal(SIGINT);
    CHECK(server.wait_exit() == 130);
    CHECK_FALSE(process_lives(engine));
}

TEST_CASE("a load is told as it goes and ends in the addresses") {
    ServerOptions options;
    options.engine = {"--load-ms", "5000"};  // the first questions are asked before it is over
    options.wait_until_ready = false;
    ServerProcess server(options);
    REQUIRE(server.port() != 0);
    const auto health = get(server.port(), "/health");
    REQUIRE(health);
    CHECK(health->status == 503);
    CHECK_FALSE(health->header("retry-after").empty());
    CHECK(post(server.port(), kPath, chat(""))->status == 503);
    REQUIRE(server.wait_ready());
    const std::string address = "http://127.0.0.1:" + std::to_string(server.port());
    CHECK(server.log_has("OpenAI base URL:    " + address + "/v1"));
    CHECK(server.log_has("API key:            none is set"));
}

TEST_CASE("an engine that never starts is a 503 with its reason") {
    ServerOptions options;
    options.wait_until_ready = false;
    options.engine = {"--do", "exit 3"};
    ServerProcess server(options);
    REQUIRE(server.port() != 0);
    REQUIRE(eventually([&] {
        const auto health = get(server.port(), "/health");
        return health && health->body.find(R"("stage":"failed")") != std::string::npos;
    }));
    const auto refused = post(server.port(), kPath, chat(""));
    REQUIRE(refused);
    CHECK(refused->status == 503);
    CHECK(refused->body.find("engine_failed") != std::string::npos);
}

TEST_CASE("an answer that nobody here ended tells who did") {
    // An engine that was told to end gives its request up and leaves.
    ServerProcess leaving(engine_with({"--do", "ready", "--do", "await GEN", "--do", "tokens 2",
                                       "--do", "done cancel", "--do", "exit 0"}));
    const auto told = post(leaving.port(), kPath, chat(""));
    REQUIRE(told);
    CHECK(told->status == 503);
    CHECK(told->body.find("answer_ended") != std::string::npos);
    CHECK(told->body.find("was told to end") != std::string::npos);
    ServerProcess failing(engine_with(
        {"--do", "ready", "--do", "await GEN", "--do", "tokens 2", "--do", "done error"}));
    const auto failed = post(failing.port(), kPath, chat(""));
    REQUIRE(failed);
    CHECK(failed->status == 500);
    CHECK(failed->body.find("could not complete") != std::string::npos);
}

TEST_CASE("a taken port is named with what to do") {
    ServerProcess first(engine_with({}));
    ServerOptions options;
    options.server = {"--port", std::to_string(first.port())};
    options.wait_until_ready = false;
    ServerProcess second(options);
    CHECK(second.wait_exit() == 1);
    CHECK(second.log().find("is taken by another program; choose another with --port N") !=
          std::string::npos);
}

TEST_CASE("prompts are in the log only when that is asked for and always on one line") {
    const std::string body =
        R"({"messages":[{"role":"user","content":"secret\nstrata-serve: forged"}],"max_tokens":2})";
    ServerProcess quiet(engine_with({}));
    REQUIRE(post(quiet.port(), kPath, body));
    CHECK(quiet.log_has("prompt "));
    CHECK(quiet.log().find("secret") == std::string::npos);
    ServerOptions options;
    options.server = {"--log-prompts"};
    ServerProcess loud(options);
    REQUIRE(post(loud.port(), kPath, body));
    CHECK(loud.log_has(R"(secret\nstrata-serve: forged)"));
}

TEST_CASE("a key is asked for and known in both headers") {
    ServerOptions options;
    options.server = {"--api-key", "a-long-secret"};
    ServerProcess server(options);
    CHECK(get(server.port(), "/v1/models")->status == 401);
    CHECK(get(server.port(), "/health")->status == 200);
    for (const char* header :
         {"Authorization: Bearer a-long-secret\r\n", "x-api-key: a-long-secret\r\n"}) {
        HttpClient client(server.port());
        REQUIRE(client.send(get_request("/v1/models", header)));
        CHECK(client.response()->status == 200);
    }
    CHECK(server.log().find("a-long-secret") == std::string::npos);
}
