// Paths, methods and targets.
#include "serve/http/routes.hpp"

#include <array>

#include <catch2/catch.hpp>

using namespace strata::serve;

TEST_CASE("each path has its route and its methods") {
    struct Row {
        Method method;
        const char* path;
        Route route;
        bool method_known;
        bool open;
    };
    const Row rows[] = {
        {Method::post, "/v1/chat/completions", Route::chat_completions, true, false},
        {Method::get, "/v1/chat/completions", Route::chat_completions, false, false},
        {Method::get, "/v1/models", Route::models, true, false},
        {Method::get, "/models", Route::models, true, false},
        {Method::head, "/v1/models", Route::models, true, false},
        {Method::post, "/v1/models", Route::models, false, false},
        {Method::get, "/v1/models/demo", Route::model, true, false},
        {Method::get, "/health", Route::health, true, true},
        {Method::get, "/v1/health", Route::health, true, true},
        {Method::get, "/status", Route::status, true, false},
        {Method::get, "/props", Route::props, true, false},
        {Method::get, "/slots", Route::slots, true, false},
        {Method::get, "/metrics", Route::metrics, true, false},
        {Method::other, "/metrics", Route::metrics, false, false},
        {Method::post, "/v1/embeddings", Route::not_supported, true, false},
        {Method::head, "/", Route::page, true, true},
        {Method::get, "/", Route::page, true, true},
        {Method::post, "/", Route::page, false, true},
        {Method::options, "/v1/chat/completions", Route::chat_completions, true, false},
        {Method::get, "/cache", Route::cache_list, true, false},
        {Method::erase, "/cache", Route::cache_list, false, false},
        {Method::erase, "/cache/3", Route::cache_entry, true, false},
        {Method::post, "/cache/3", Route::cache_entry, false, false},
        {Method::post, "/cache/3/pin", Route::cache_pin, true, false},
        {Method::get, "/cache/3/pin", Route::cache_pin, false, false},
        {Method::erase, "/cache/3/pin", Route::cache_pin, false, false},
    };
    for (const Row& row : rows) {
        INFO(row.path);
        const auto match = match_route(row.method, row.path, false);
        REQUIRE(match);
        CHECK(match->route == row.route);
        CHECK(match->method_known == row.method_known);
        CHECK(match->open == row.open);
    }
    for (const char* path : {"/v1", "/v1/models/", "/v1/audio/speech", "/v1/chat/completions/",
                             "/a", "/cache/", "/cache/3/", "/cache/3/pin/", "/cache/3/pin/4",
                             "/cache//pin", "/cache/3/4/pin", "/cache/3/unpin"}) {
        INFO(path);
        for (const Method method : {Method::get, Method::post, Method::erase, Method::other}) {
            CHECK_FALSE(match_route(method, path, false));
        }
    }
    CHECK(match_route(Method::get, "/style.css", true)->route == Route::page);
}

TEST_CASE("Allow names the methods of the path") {
    CHECK(match_route(Method::get, "/v1/chat/completions", false)->allow == "POST, OPTIONS");
    CHECK(match_route(Method::post, "/health", false)->allow == "GET, HEAD, OPTIONS");
    CHECK(match_route(Method::get, "/cache/3/pin", false)->allow == "POST, OPTIONS");
    CHECK(match_route(Method::get, "/cache/3", false)->allow == "DELETE, OPTIONS");
}

TEST_CASE("a model id is the rest of its path") {
    CHECK(match_route(Method::get, "/v1/models/a/b c", false)->rest == "a/b c");
}

TEST_CASE("a target is decoded or refused") {
    CHECK(parse_target("/a%20b?x=1")->path == "/a b");
    CHECK(parse_target("/a%20b?x=1&y")->query == "x=1&y");
    CHECK(parse_target("http://localhost:80/health")->path == "/health");
    CHECK(parse_target("http://localhost")->path == "/");
    CHECK(parse_target("HTTP://localhost?x=1")->path == "/");
    CHECK(parse_target("HTTP://localhost?x=1")->query == "x=1");
    CHECK(parse_target("*")->path == "*");
    for (const char* bad :
         {"", "a", "/%", "/%4", "/%zz", "/%00", "/a%0d%0ab", "localhost:80", "/%7f", "http://",
          "http:///health", "http://?x", "https://user@localhost/", "ftp://a/", "http:/health"}) {
        INFO(bad);
        CHECK_FALSE(parse_target(bad));
    }
}

TEST_CASE("an absolute target names its authority and the others name none") {
    CHECK(parse_target("/http://evil/")->authority.empty());
    CHECK(parse_target("*")->authority.empty());
    CHECK(parse_target("http://Evil:81/health")->authority == "Evil:81");
    CHECK(parse_target("hTTps://evil?x")->authority == "evil");
    CHECK(parse_target("http://[::1]:80/a")->authority == "[::1]:80");
}

TEST_CASE("query values are found by their whole name") {
    CHECK(query_value("a=1&b=2", "b") == "2");
    CHECK(query_value("ab=1&b=x+y%21", "b") == "x y!");
    CHECK(query_value("b", "b") == "");
    CHECK_FALSE(query_value("ab=1", "b"));
    CHECK_FALSE(query_value("", "b"));
}

TEST_CASE("a query value that is given twice or is no text is a fault") {
    constexpr std::array<QueryName, 3> kNames = {{{"rows"}, {"format"}, {"wait", true}}};
    for (const char* good : {"", "rows=1", "rows=1&format=json", "other=1&other=2", "rows"}) {
        INFO(good);
        CHECK_FALSE(query_fault(good, kNames));
    }
    CHECK(query_fault("rows=1&rows=1", kNames)->name == "rows");
    CHECK(query_fault("rows=1&x=2&rows", kNames)->words == "is given twice; allowed: once");
    CHECK(query_fault("rows=1&format=json&format=json", kNames)->name == "format");
    for (const char* flag : {"wait=0", "wait=1", "wait=%31", "rows=x&other=y"}) {
        INFO(flag);
        CHECK_FALSE(query_fault(flag, kNames));
    }
    for (const char* flag : {"wait", "wait=", "wait=true", "wait=01", "wait=2", "wait=%00"}) {
        INFO(flag);
        CHECK(query_fault(flag, kNames)->name == "wait");
    }
    CHECK(query_fault("wait=x", kNames)->words == "is \"x\"; allowed: 0 or 1");
    CHECK(query_fault("rows=%zz", kNames)->words == "is %zz, which is no percent-encoded text");
}
