// Who may ask: tables of Host, Origin and keys, with and without a key set.
#include "serve/http/access.hpp"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

using namespace strata::serve;

namespace {

AccessFacts get_from(std::string_view host) {
    AccessFacts facts;
    facts.host = host;
    return facts;
}

AccessFacts post_from(std::string_view host, std::string_view origin) {
    AccessFacts facts = get_from(host);
    facts.posts = true;
    facts.origin = origin;
    facts.has_origin = true;
    return facts;
}

bool allowed(const AccessSettings& settings, const AccessFacts& facts) {
    return !access_refusal(settings, facts).has_value();
}

AccessSettings loopback() {
    AccessSettings settings;
    settings.listen_host = "127.0.0.1";
    return settings;
}

}  // namespace

TEST_CASE("without a key only names of this machine are answered") {
    const AccessSettings settings = loopback();
    for (const char* host :
         {"localhost", "localhost:8080", "LOCALHOST:1", "chat.localhost", "127.0.0.1:8080",
          "[::1]:8080", "[::1]", "192.168.1.4:80", "localhost."}) {
        INFO(host);
        CHECK(allowed(settings, get_from(host)));
    }
    for (const char* host : {"evil.example", "localhost.evil.example", "notlocalhost", "", "a:b",
                             "[::1", "127.0.0.1.evil.example", "localhost:80:80"}) {
        INFO(host);
        const auto refusal = access_refusal(settings, get_from(host));
        REQUIRE(refusal);
        CHECK(refusal->kind == ErrorKind::permission);
        CHECK(refusal->message.find("--allowed-host") != std::string::npos);
    }
}

TEST_CASE("allowed hosts are names or suffixes or everything") {
    AccessSettings settings = loopback();
    settings.allowed_hosts = {"box.lan", ".example.com"};
    CHECK(allowed(settings, get_from("box.lan:8080")));
    CHECK(allowed(settings, get_from("a.example.com")));
    CHECK(allowed(settings, get_from("example.com")));
    CHECK_FALSE(allowed(settings, get_from("badexample.com")));
    CHECK_FALSE(allowed(settings, get_from("other.lan")));
    settings.allowed_hosts = {"*"};
    CHECK(allowed(settings, get_from("other.lan")));
}

TEST_CASE("own names count only when listening on every address") {
    AccessSettings settings = loopback();
    settings.own_names = {"Box"};
    CHECK_FALSE(allowed(settings, get_from("box")));
    settings.listen_host = "0.0.0.0";
    CHECK(allowed(settings, get_from("box:8080")));
}

TEST_CASE("without a key a POST of a foreign page is refused") {
    const AccessSettings settings = loopback();
    for (const char* origin :
         {"http://localhost:8080", "http://127.0.0.1:3000", "http://localhost",
          "https://localhost:1", "chrome-extension://abc", "vscode-webview://x"}) {
        INFO(origin);
        CHECK(allowed(settings, post_from("localhost:8080", origin)));
    }
    for (const char* origin : {"null", "https://evil.example", "http://localhost.evil.example", "",
                               "file://", "http://192.168.1.4"}) {
        INFO(origin);
        const auto refusal = access_refusal(settings, post_from("localhost:8080", origin));
        REQUIRE(refusal);
        CHECK(refusal->kind == ErrorKind::permission);
        CHECK(refusal->message.find("--cors-origin") != std::string::npos);
    }
    CHECK(allowed(settings, post_from("192.168.1.4:8080", "http://192.168.1.4:8080")));
    AccessFacts get = post_from("localhost", "https://evil.example");
    get.posts = false;
    CHECK(allowed(settings, get));
}

TEST_CASE("with a key the key decides and nothing else") {
    AccessSettings settings = loopback();
    settings.api_keys = {"first-key", "second-key"};
    AccessFacts facts = post_from("evil.example", "https://evil.example");
    const auto refusal = access_refusal(settings, facts);
    REQUIRE(refusal);
    CHECK(refusal->kind == ErrorKind::authentication);
    CHECK(refusal->code == "invalid_api_key");
    for (const char* good : {"Bearer first-key", "bearer second-key", "Bearer   first-key"}) {
        facts.authorization = good;
        INFO(good);
        CHECK(allowed(settings, facts));
    }
    for (const char* bad : {"Bearer first-ke", "Bearer first-keyy", "first-key", "Basic first-key",
                            "Bearer ", "Bearer"}) {
        facts.authorization = bad;
        INFO(bad);
        CHECK_FALSE(allowed(settings, facts));
    }
    facts.authorization = "";
    facts.x_api_key = "second-key";
    CHECK(allowed(settings, facts));
    facts.x_api_key = "";
    facts.open_route = true;
    CHECK(allowed(settings, facts));
}

TEST_CASE("keys are compared whole") {
    CHECK(equal_in_constant_time("abc", "abc"));
    CHECK_FALSE(equal_in_constant_time("abc", "abcabc"));
    CHECK_FALSE(equal_in_constant_time("abc", "ab"));
    CHECK_FALSE(equal_in_constant_time("", "a"));
    CHECK_FALSE(equal_in_constant_time("a", ""));
    CHECK(equal_in_constant_time("", ""));
}

TEST_CASE("CORS is off until an origin is listed") {
    AccessSettings settings = loopback();
    CHECK_FALSE(cors_origin(settings, "https://app.example"));
    settings.cors_origins = {"https://app.example"};
    CHECK(cors_origin(settings, "https://app.example") == "https://app.example");
    CHECK_FALSE(cors_origin(settings, "https://other.example"));
    CHECK(allowed(settings, post_from("localhost", "https://app.example")));
    settings.cors_origins = {"*"};
    CHECK(cors_origin(settings, "https://other.example") == "*");
    CHECK_FALSE(cors_origin(settings, "null"));
}
