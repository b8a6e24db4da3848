// POST /load and /unload over HTTP, with an engine that the test plays: answers, guards, waiting.
#include <string>

#include <catch2/catch.hpp>

#include "tests/serve/http/local_server.hpp"
#include "tests/support/server_process.hpp"

using namespace strata;
using namespace strata::tests;
using namespace std::chrono_literals;
using serve::EngineState;

namespace {

std::string bare_post(const std::string& path, const std::string& extra = "") {
    return "POST " + path + " HTTP/1.1\r\nHost: localhost\r\n" + extra + "\r\n";
}

// The engine comes to `state`, and whoever waits for that is told.
void settle(LocalServer& server, EngineState state) {
    server.on_io([&] {
        server.engine.now.state = state;
        for (const auto& tell : server.engine.loads) tell();
        for (const auto& tell : server.engine.unloads) tell();
        server.engine.loads.clear();
        server.engine.unloads.clear();
    });
}

bool asked_to_load(LocalServer& server) {
    return eventually(
        [&] { return server.from_io<bool>([&] { return !server.engine.loads.empty(); }); });
}

bool asked_to_unload(LocalServer& server) {
    return eventually(
        [&] { return server.from_io<bool>([&] { return !server.engine.unloads.empty(); }); });
}

int status_after(LocalServer& server, const std::string& request) {
    HttpClient client(server.port());
    REQUIRE(client.send(request));
    const auto response = client.response();
    REQUIRE(response);
    return response->status;
}

}  // namespace

TEST_CASE("a load is answered when the engine is ready") {
    LocalServer server;
    server.on_io([&] { server.engine.now.state = EngineState::unloaded; });
    HttpClient client(server.port());
    REQUIRE(client.send(bare_post("/load")));
    REQUIRE(asked_to_load(server));
    CHECK_FALSE(client.response(Wait(100)));
    settle(server, EngineState::ready);
    const auto response = client.response();
    REQUIRE(response);
    CHECK(response->status == 200);
    CHECK(response->body == R"({"status":"ok","loaded":true,"state":"ready","epoch":1})");
}

TEST_CASE("a load that is not waited for is answered at once") {
    LocalServer server;
    server.on_io([&] { server.engine.now.state = EngineState::loading; });
    HttpClient client(server.port());
    REQUIRE(client.send(bare_post("/load?wait=0")));
    const auto response = client.response();
    REQUIRE(response);
    CHECK(response->status == 202);
    CHECK(response->body == R"({"status":"ok","loaded":false,"state":"weights","epoch":1})");
    settle(server, EngineState::ready);  // nobody is told twice
    CHECK(get(server.port(), "/health")->status == 200);
}

TEST_CASE("a load that is refused says why with its figures") {
    LocalServer server;
    server.on_io([&] {
        server.engine.now.state = EngineState::unloaded;
        server.engine.now.failure = "not enough GPU memory: 5 of 9 MiB are free on Card";
        server.engine.now.refusal_code = "not_enough_vram";
    });
    HttpClient client(server.port());
    REQUIRE(client.send(bare_post("/load")));
    REQUIRE(asked_to_load(server));
    settle(server, EngineState::unloaded);
    const auto response = client.response();
    REQUIRE(response);
    CHECK(response->status == 503);
    CHECK_FALSE(response->header("retry-after").empty());
    CHECK(response->body.find(R"("code":"not_enough_vram")") != std::string::npos);
    CHECK(response->body.find("5 of 9 MiB") != std::string::npos);
    const auto health = get(server.port(), "/health");
    CHECK(health->status == 200);
    CHECK(health->body.find(R"("failure":"not enough GPU memory)") != std::string::npos);
}

TEST_CASE("an unload is answered when the engine is gone and refused while one runs") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(bare_post("/unload")));
    REQUIRE(asked_to_unload(server));
    CHECK_FALSE(client.response(Wait(100)));
    settle(server, EngineState::unloaded);
    const auto response = client.response();
    REQUIRE(response);
    CHECK(response->status == 200);
    CHECK(response->body == R"({"status":"ok","loaded":false,"state":"unloaded","epoch":1})");
    server.on_io([&] { server.engine.now.busy = true; });
    HttpClient late(server.port());
    REQUIRE(late.send(bare_post("/unload")));
    const auto refused = late.response();
    REQUIRE(refused);
    CHECK(refused->status == 409);
    CHECK(refused->header("retry-after") == "1");
    CHECK(refused->body.find(R"("type":"conflict_error")") != std::string::npos);
    CHECK(refused->body.find(R"("code":"engine_busy")") != std::string::npos);
}

TEST_CASE("who leaves while a load or an unload is under way is not told") {
    LocalServer server;
    for (const char* path : {"/load", "/unload"}) {
        HttpClient client(server.port());
        REQUIRE(client.send(bare_post(path)));
    }
    REQUIRE(asked_to_load(server));
    REQUIRE(asked_to_unload(server));
    CHECK(eventually([&] {
        return server.from_io<bool>([&] { return server.http->open_connections() == 0; });
    }));
    settle(server, EngineState::ready);
    CHECK(get(server.port(), "/health")->status == 200);
}

TEST_CASE("loading and unloading are guarded like every unsafe route") {
    LocalServer server;
    CHECK(status_after(server, bare_post("/unload", "Origin: https://evil.example\r\n")) == 403);
    CHECK(status_after(server, bare_post("/load", "Origin: null\r\n")) == 403);
    CHECK(status_after(server, "POST /unload HTTP/1.1\r\nHost: evil.example\r\n\r\n") == 403);
    // A form of another page says what it is, even when it is empty.
    CHECK(status_after(server, bare_post("/unload",
                                         "Content-Type: application/x-www-form-urlencoded\r\n"
                                         "Content-Length: 0\r\n")) == 415);
    CHECK(status_after(server, "GET /unload HTTP/1.1\r\nHost: localhost\r\n\r\n") == 405);
    serve::HttpSettings keyed;
    keyed.access.api_keys = {"a-secret-key"};
    LocalServer locked(keyed);
    CHECK(status_after(locked, bare_post("/unload")) == 401);
    CHECK(status_after(locked, bare_post("/load", "x-api-key: another-key\r\n")) == 401);
    CHECK(status_after(locked, bare_post("/load?wait=0", "x-api-key: a-secret-key\r\n")) == 200);
}

TEST_CASE("an unloaded server is well and says so everywhere") {
    LocalServer server;
    const EngineState state = GENERATE(EngineState::unloaded, EngineState::unloading);
    server.on_io([&] {
        server.engine.now.state = state;
        server.engine.now.info.reset();
    });
    const std::string word = state == EngineState::unloaded ? "unloaded" : "unloading";
    const auto health = get(server.port(), "/health");
    CHECK(health->status == 200);
    CHECK(health->body.find(R"("loaded":false)") != std::string::npos);
    CHECK(health->body.find("\"state\":\"" + word + "\"") != std::string::npos);
    CHECK(get(server.port(), "/status")->body.find(R"("state":"unloaded")") != std::string::npos);
    CHECK(get(server.port(), "/props")->body.find(R"("is_sleeping":true)") != std::string::npos);
    CHECK(get(server.port(), "/slots?fail_on_no_slot=1")->status == 200);
    CHECK(get(server.port(), "/metrics")->body.find(R"("state_bytes":null)") != std::string::npos);
}

TEST_CASE("a request is queued while nothing is loaded and while it is loaded for another one") {
    serve::ApiSettings settings;
    settings.expected_context = 4096;
    LocalServer server({}, settings);
    server.on_io([&] {
        server.engine.now.state = EngineState::unloaded;
        server.engine.now.info.reset();
    });
    HttpClient first(server.port());
    REQUIRE(first.send(post_request("/v1/chat/completions", kChatBody)));
    REQUIRE(server.asked(1));
    for (const EngineState state : {EngineState::preparing, EngineState::loading}) {
        server.on_io([&] {
            server.engine.now.state = state;
            server.engine.now.on_demand = false;
        });
        const auto refused = post(server.port(), "/v1/chat/completions", kChatBody);
        CHECK(refused->status == 503);
        CHECK_FALSE(refused->header("retry-after").empty());
    }
    server.on_io([&] { server.engine.now.on_demand = true; });
    HttpClient second(server.port());
    REQUIRE(second.send(post_request("/v1/chat/completions", kChatBody)));
    REQUIRE(server.asked(2));
}
