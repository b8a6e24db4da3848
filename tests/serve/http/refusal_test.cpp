// Refusals and documents as a client sees them: status, error shape, headers.
#include <string>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <catch2/catch.hpp>

#include "tests/serve/http/local_server.hpp"

using namespace strata;
using namespace strata::tests;
namespace json = boost::json;

namespace {

HttpResponse ask(LocalServer& server, const std::string& bytes) {
    HttpClient client(server.port());
    REQUIRE(client.send(bytes));
    const auto response = client.response();
    REQUIRE(response);
    CHECK(response->header("x-request-id").size() == 16);
    CHECK(response->header("request-id") == response->header("x-request-id"));
    return *response;
}

std::string with_host(const std::string& method, const std::string& path, const std::string& host,
                      const std::string& more = "") {
    return method + " " + path + " HTTP/1.1\r\nHost: " + host + "\r\n" + more + "\r\n";
}

std::string error_word(const HttpResponse& response, const char* key) {
    const json::value body = json::parse(response.body);
    const json::value& word = body.at("error").at(key);
    return word.is_null() ? "null" : std::string(word.as_string());
}

}  // namespace

TEST_CASE("each refusal has its status type and code") {
    LocalServer server;
    struct Row {
        std::string bytes;
        int status;
        const char* type;
        const char* code;
    };
    const std::string json_type = "Content-Type: application/json\r\n";
    const Row rows[] = {
        {with_host("GET", "/v1/models", "evil.example"), 403, "permission_error",
         "host_not_allowed"},
        {with_host("POST", "/v1/chat/completions", "localhost",
                   json_type + "Origin: https://evil.example\r\nContent-Length: 0\r\n"),
         403, "permission_error", "origin_not_allowed"},
        {get_request("/v1/nothing"), 404, "not_found_error", "unknown_route"},
        {get_request("/v1/chat/completions"), 405, "invalid_request_error", "method_not_allowed"},
        {with_host("DELETE", "/health", "localhost"), 405, "invalid_request_error",
         "method_not_allowed"},
        {with_host("POST", "/v1/chat/completions", "localhost",
                   "Content-Type: text/plain\r\nContent-Length: 0\r\n"),
         415, "invalid_request_error", "unsupported_media_type"},
        {with_host("POST", "/v1/chat/completions", "localhost",
                   json_type + "Expect: 200-ok\r\nContent-Length: 0\r\n"),
         417, "invalid_request_error", "expectation_failed"},
        {post_request("/v1/embeddings", "{}"), 501, "not_supported_error", "not_supported"},
        {post_request("/v1/chat/completions", "{"), 400, "invalid_request_error", "invalid_json"},
        {post_request("/v1/chat/completions", ""), 400, "invalid_request_error", "invalid_json"},
    };
    for (const Row& row : rows) {
        INFO(row.bytes);
        const HttpResponse response = ask(server, row.bytes);
        CHECK(response.status == row.status);
        CHECK(response.header("content-type") == "application/json; charset=utf-8");
        CHECK(error_word(response, "type") == row.type);
        CHECK(error_word(response, "code") == row.code);
        CHECK((response.header("allow").empty()) == (row.status != 405));
    }
}

TEST_CASE("another model name is served unless names are strict") {
    const std::string body = R"({"model":"gpt-9","messages":[{"role":"user","content":"hi"}]})";
    LocalServer lenient;
    HttpClient client(lenient.port());
    REQUIRE(client.send(post_request("/v1/chat/completions", body)));
    REQUIRE(lenient.asked(1));
    lenient.answer(0, {token_of("Hello")});
    CHECK(client.response()->body.find(R"("model":"demo")") != std::string::npos);
    serve::ApiSettings settings;
    settings.strict_model = true;
    LocalServer strict({}, settings);
    const HttpResponse refused = ask(strict, post_request("/v1/chat/completions", body));
    CHECK(refused.status == 404);
    CHECK(error_word(refused, "code") == "model_not_found");
    CHECK(error_word(refused, "param") == "model");
}

TEST_CASE("keys are asked for on every route but health and the page") {
    serve::HttpSettings settings;
    settings.access.api_keys = {"a-long-secret"};
    LocalServer server(settings);
    for (const char* path :
         {"/v1/models", "/metrics", "/props", "/status", "/slots", "/v1/nothing"}) {
        INFO(path);
        const HttpResponse response = ask(server, get_request(path));
        CHECK(response.status == 401);
        CHECK(response.header("www-authenticate") == "Bearer");
        CHECK(error_word(response, "code") == "invalid_api_key");
    }
    for (const char* path : {"/health", "/v1/health", "/"}) {
        CHECK(ask(server, get_request(path)).status == 200);
    }
    CHECK(ask(server, get_request("/metrics", "x-api-key: a-long-secret\r\n")).status == 200);
}

TEST_CASE("CORS headers are for listed origins only") {
    serve::HttpSettings settings;
    settings.access.cors_origins = {"https://app.example"};
    LocalServer server(settings);
    const auto options = [](const std::string& origin) {
        return with_host("OPTIONS", "/v1/chat/completions", "localhost",
                         "Origin: " + origin +
                             "\r\nAccess-Control-Request-Method: POST\r\n"
                             "Access-Control-Request-Headers: content-type, authorization\r\n");
    };
    const HttpResponse listed = ask(server, options("https://app.example"));
    CHECK(listed.status == 204);
    CHECK(listed.header("access-control-allow-origin") == "https://app.example");
    CHECK(listed.header("access-control-allow-methods") == "POST, OPTIONS");
    CHECK(listed.header("access-control-allow-headers") == "content-type, authorization");
    const HttpResponse other = ask(server, options("https://other.example"));
    CHECK(other.status == 204);
    CHECK(other.header("access-control-allow-origin").empty());
    CHECK(other.header("access-control-allow-headers").empty());
    LocalServer off;
    CHECK(ask(off, options("https://app.example")).header("access-control-allow-origin").empty());
}

TEST_CASE("the documents have their shapes") {
    LocalServer server;
    const auto document = [&](const char* path) {
        return json::parse(ask(server, get_request(path)).body);
    };
    const json::value models = document("/v1/models");
    CHECK(models.at("object").as_string() == "list");
    const json::value& model = models.at("data").at(0);
    CHECK(model.at("id").as_string() == "demo");
    CHECK(model.at("object").as_string() == "model");
    CHECK(model.at("type").as_string() == "model");
    CHECK(model.at("max_model_len").as_int64() == 4096);
    CHECK(model.at("meta").at("n_ctx").as_int64() == 4096);
    CHECK(model.at("architecture").at("input_modalities").at(0).as_string() == "text");
    CHECK(document("/v1/models/demo") == model);
    CHECK(document("/models") == models);
    const json::value status = document("/status");
    CHECK(status.at("state").as_string() == "idle");
    for (const char* key : {"queued", "prompt_tokens", "prompt_read", "generated", "max_tokens",
                            "elapsed_s", "tok_s"}) {
        CHECK(status.at(key).to_number<double>() == 0);
    }
    const json::value slots = document("/slots");
    CHECK(slots.at(0).at("n_ctx").as_int64() == 4096);
    CHECK_FALSE(slots.at(0).at("is_processing").as_bool());
    const json::value props = document("/props");
    CHECK(props.at("default_generation_settings").at("n_ctx").as_int64() == 4096);
    CHECK(props.at("total_slots").as_int64() == 1);
    CHECK(props.at("model_alias").as_string() == "demo");
    CHECK(props.at("chat_template").as_string().size() > 100);
    CHECK_FALSE(props.at("modalities").at("vision").as_bool());
    CHECK_FALSE(props.at("is_sleeping").as_bool());
    for (const char* key :
         {"time", "engine", "live", "requests", "totals", "hardware", "history"}) {
        CHECK(document("/metrics").as_object().contains(key));
    }
}

TEST_CASE("a model is found under any name unless names are strict") {
    LocalServer easy;
    CHECK(json::parse(ask(easy, get_request("/v1/models/other")).body).at("id").as_string() ==
          "demo");
    serve::ApiSettings api;
    api.strict_model = true;
    LocalServer strict({}, api);
    CHECK(ask(strict, get_request("/v1/models/demo")).status == 200);
    const HttpResponse refused = ask(strict, get_request("/v1/models/other"));
    CHECK(refused.status == 404);
    CHECK(error_word(refused, "code") == "model_not_found");
    const HttpResponse chat = ask(
        strict, post_request("/v1/chat/completions",
                             R"({"model":"other","messages":[{"role":"user","content":"x"}]})"));
    CHECK(chat.status == 404);
    CHECK(error_word(chat, "code") == "model_not_found");
}

TEST_CASE("a client that leaves is a cancel in the metrics as in the log") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(post_request("/v1/chat/completions", kChatBody)));
    REQUIRE(server.asked(1));
    client.close();
    REQUIRE(server.cancelled(1));
    const HttpResponse metrics = ask(server, get_request("/metrics"));
    const json::value row = json::parse(metrics.body).at("requests").at(0);
    CHECK(row.at("finish").as_string() == "cancel");
    CHECK(row.at("prompt_length").as_int64() > 0);
    CHECK(row.at("prompt_tokens").as_int64() == 0);  // nothing was read
    CHECK(serve::summary_line(server.finished.at(0)).find(", cancel (") != std::string::npos);
    CHECK(metrics.body.find("E0") == std::string::npos);
    CHECK(metrics.body.find(R"("tok_s":0})") != std::string::npos);
}

TEST_CASE("a busy server has no slot to give") {
    LocalServer server;
    CHECK(ask(server, get_request("/slots?fail_on_no_slot=1")).status == 200);
    server.on_io([&] { server.engine.now.busy = true; });
    CHECK(ask(server, get_request("/slots?fail_on_no_slot=1")).status == 503);
    CHECK(ask(server, get_request("/slots")).status == 200);
}

TEST_CASE("finished requests are in the metrics newest first") {
    LocalServer server;
    std::string ids[2];
    for (std::size_t i = 0; i < 2; ++i) {
        HttpClient client(server.port());
        REQUIRE(client.send(post_request("/v1/chat/completions", kChatBody)));
        REQUIRE(server.asked(i + 1));
        server.answer(i, {token_of("Hello")});
        ids[i] = client.response()->header("x-request-id");
    }
    const json::value metrics = json::parse(ask(server, get_request("/metrics")).body);
    REQUIRE(metrics.at("requests").as_array().size() == 2);
    CHECK(metrics.at("requests").at(0).at("id").as_string() == json::string(ids[1]));
    CHECK(metrics.at("requests").at(1).at("id").as_string() == json::string(ids[0]));
    CHECK(metrics.at("totals").at("requests").to_number<int>() == 2);
}
