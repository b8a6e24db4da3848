// The Monitor's figures with the real engine and the demo model, over HTTP: what a person sees who
// goes back and forth between two chats.
#include <string>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <catch2/catch.hpp>

#include "tests/support/server_process.hpp"

using namespace strata::tests;
namespace json = boost::json;

namespace {

constexpr Wait kAnswerTime{60'000};
constexpr std::int64_t kMiB = 1 << 20;

ServerOptions real(std::vector<std::string> options) {
    ServerOptions out;
    out.real_engine = true;
    out.server = std::move(options);
    return out;
}

ServerOptions cached(const std::string& mib) {
    return real({"--conversation-cache-mib", mib, "--conversation-cache-min-free-mib", "0"});
}

// A chat as its client keeps it, and the figures that the client was told.
class Chat {
  public:
    Chat(const ServerProcess& server, const std::string& system) : server_(server) {
        if (!system.empty()) add("system", system);
    }
    void say(const std::string& question, const json::object& more = {}) {
        add("user", question);
        json::object body = more;
        body["messages"] = messages_;
        if (!body.contains("max_tokens")) body["max_tokens"] = 12;
        const auto response =
            post(server_.port(), "/v1/chat/completions", json::serialize(body), kAnswerTime);
        REQUIRE(response);
        INFO(response->body);
        REQUIRE(response->status == 200);
        const json::value reply = json::parse(response->body);
        const json::value& message = reply.at("choices").at(0).at("message");
        add("assistant", std::string(message.at("content").as_string()));
        const json::value& usage = reply.at("usage");
        prompt = usage.at("prompt_tokens").as_int64();
        reused = usage.at("prompt_tokens_details").at("cached_tokens").as_int64();
        output = usage.at("completion_tokens").as_int64();
    }
    std::int64_t prompt = 0;
    std::int64_t reused = 0;
    std::int64_t output = 0;

  private:
    void add(const std::string& role, const std::string& content) {
        messages_.push_back(json::object{{"role", role}, {"content", content}});
    }
    const ServerProcess& server_;
    json::array messages_;
};

json::value metrics(const ServerProcess& server) {
    const auto response = get(server.port(), "/metrics");
    REQUIRE(response);
    return json::parse(response->body);
}

std::int64_t whole(const json::value& value) {
    return value.to_number<std::int64_t>();
}

HttpResponse change(const ServerProcess& server, const std::string& method, const std::string& path,
                    const std::string& headers = "") {
    HttpClient client(server.port());
    REQUIRE(client.send(method + " " + path + " HTTP/1.1\r\nHost: localhost\r\n" + headers +
                        "Content-Length: 0\r\n\r\n"));
    const auto response = client.response(kAnswerTime);
    REQUIRE(response);
    return *response;
}

}  // namespace

TEST_CASE("Two chats in turn are three switches and one hit") {
    ServerProcess server(cached("512"));
    REQUIRE(server.wait_ready(kAnswerTime));
    Chat a(server, "");
    Chat b(server, "");
    std::int64_t prompt = 0;
    std::int64_t reused = 0;
    std::int64_t output = 0;
    const auto counted = [&](Chat& chat, const std::string& question) {
        chat.say(question);
        prompt += chat.prompt;
        reused += chat.reused;
        output += chat.output;
    };
    counted(a, "What is an otter?");
    CHECK(whole(metrics(server).at("conversation_cache").at("parked")) == 0);
    counted(b, "My codename is Silver Lynx and I live in Bergen.");
    const std::int64_t parked_bytes = whole(metrics(server).at("conversation_cache").at("bytes"));
    CHECK(whole(metrics(server).at("conversation_cache").at("parked")) == 1);
    CHECK(parked_bytes > 0);
    counted(a, "Thank you!");
    const json::value now = metrics(server);
    const json::value& cache = now.at("conversation_cache");
    CHECK(cache.at("enabled").as_bool());
    CHECK(whole(cache.at("rows")) == 3);
    CHECK(whole(cache.at("switches")) == 3);
    CHECK(whole(cache.at("hits")) == 1);
    CHECK(whole(cache.at("prompt_tokens")) == prompt);
    CHECK(whole(cache.at("reused_tokens")) == reused);
    CHECK(reused > 0);
    CHECK(whole(cache.at("totals").at("output_tokens")) == output);
    CHECK(whole(cache.at("parked")) == 1);
    CHECK(whole(cache.at("bytes")) > 0);
    CHECK(whole(cache.at("bytes")) <= 512 * kMiB);
    CHECK(whole(cache.at("budget_bytes")) == 512 * kMiB);
    const json::value& newest = now.at("requests").at(0);
    CHECK(newest.at("group").as_string() == "restored");
    CHECK(newest.at("restore_ms").to_number<double>() >= 0);
    bool restored = false;
    for (const json::value& event : cache.at("events").as_array()) {
        restored = restored || event.at("kind").as_string() == "restore";
    }
    CHECK(restored);
    CHECK(now.at("hardware").at("ram").at("split").is_object());
}

TEST_CASE("A chat goes on without a switch and comes back by a hit") {
    for (const std::string system : {"", "You are a patient teacher of animals."}) {
        INFO(system);
        ServerProcess server(cached("64"));
        REQUIRE(server.wait_ready(kAnswerTime));
        Chat chat(server, system);
        Chat side(server, "");
        chat.say("What is an otter?");
        chat.say("Thank you!");
        CHECK_FALSE(metrics(server).at("requests").at(0).at("switched").as_bool());
        side.say("Hello!");
        CHECK(metrics(server).at("requests").at(0).at("switched").as_bool());
        chat.say("What does it eat?");
        const json::value row = metrics(server).at("requests").at(0);
        CHECK(row.at("switched").as_bool());
        CHECK(row.at("restored").as_bool());
        CHECK(whole(row.at("reused")) == chat.reused);
    }
}

TEST_CASE("A first request with a thinking budget reused nothing") {
    ServerProcess server(cached("64"));
    REQUIRE(server.wait_ready(kAnswerTime));
    Chat chat(server, "");
    chat.say(
        "What is 23 times 4?",
        {{"reasoning_effort", "medium"}, {"reasoning_budget_tokens", 20}, {"max_tokens", 200}});
    CHECK(chat.reused == 0);
    const json::value now = metrics(server);
    REQUIRE(now.at("requests").as_array().size() == 1);
    const json::value& row = now.at("requests").at(0);
    CHECK(whole(row.at("passes")) == 2);
    CHECK(whole(row.at("reused")) == 0);
    CHECK(whole(row.at("prompt_tokens")) == chat.prompt);
    CHECK(whole(row.at("output_tokens")) == chat.output);
    CHECK(whole(now.at("conversation_cache").at("reused_tokens")) == 0);
    CHECK(whole(now.at("conversation_cache").at("switches")) == 1);
}

TEST_CASE("Without the cache the block says that it is off") {
    for (const std::vector<std::string>& options :
         {std::vector<std::string>{},
          {"--conversation-cache-mib", "64", "--prompt-cache", "0"},
          {"--conversation-cache-mib", "64", "--conversation-cache-slots", "0"}}) {
        ServerProcess server(real(options));
        REQUIRE(server.wait_ready(kAnswerTime));
        Chat chat(server, "");
        chat.say("Hello!");
        const json::value cache = metrics(server).at("conversation_cache");
        CHECK_FALSE(cache.at("enabled").as_bool());
        CHECK_FALSE(cache.as_object().contains("parked"));
        CHECK_FALSE(cache.as_object().contains("budget_bytes"));
    }
}

TEST_CASE("A parked conversation is listed and pinned and dropped over HTTP") {
    ServerOptions options = cached("64");
    options.server.push_back("--show-prompts");
    ServerProcess server(options);
    REQUIRE(server.wait_ready(kAnswerTime));
    Chat a(server, "");
    Chat b(server, "");
    a.say("What is an otter?");
    b.say("Hello!");
    const auto entries = [&] {
        const auto response = get(server.port(), "/cache");
        REQUIRE(response);
        REQUIRE(response->status == 200);
        return json::parse(response->body).at("entries").as_array();
    };
    REQUIRE(entries().size() == 1);
    const json::value first = entries()[0];
    CHECK(first.at("first_words").as_string() == "What is an otter?");
    CHECK_FALSE(first.at("pinned").as_bool());
    const std::string path = "/cache/" + std::to_string(whole(first.at("entry")));
    CHECK(change(server, "POST", path + "/pin").status == 200);
    CHECK(entries()[0].at("pinned").as_bool());
    CHECK(change(server, "POST", path + "/pin", "Origin: http://evil.example\r\n").status == 403);
    CHECK(change(server, "DELETE", path, "Origin: http://evil.example\r\n").status == 403);
    CHECK(entries().size() == 1);
    CHECK(change(server, "GET", path).status == 405);
    CHECK(change(server, "DELETE", "/cache/999").status == 404);
    CHECK(change(server, "DELETE", "/cache/x").status == 404);
    const HttpResponse dropped = change(server, "DELETE", path);
    CHECK(dropped.status == 200);
    CHECK(json::parse(dropped.body).at("entries").as_array().empty());
    CHECK(entries().empty());
    // Its next turn is read again.
    a.say("Thank you!");
    CHECK_FALSE(metrics(server).at("requests").at(0).at("restored").as_bool());
}

TEST_CASE("The list of parked conversations asks for the key") {
    ServerOptions options = cached("64");
    options.server.insert(options.server.end(), {"--api-key", "a-long-secret"});
    ServerProcess server(options);
    REQUIRE(server.wait_ready(kAnswerTime));
    CHECK(change(server, "GET", "/cache").status == 401);
    CHECK(change(server, "DELETE", "/cache/1").status == 401);
    CHECK(change(server, "POST", "/cache/1/pin").status == 401);
    CHECK(change(server, "DELETE", "/cache/1", "Authorization: Bearer a-long-secret\r\n").status ==
          404);
}
