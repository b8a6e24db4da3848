// The thinking budget and the coming and going of the engine, with the real one and the demo model.
#include <string>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <catch2/catch.hpp>

#include "tests/support/process_epilogue.hpp"
#include "tests/support/server_process.hpp"

using namespace strata::tests;
namespace json = boost::json;

namespace {

const std::string kPath = "/v1/chat/completions";
constexpr Wait kAnswerTime{60'000};
constexpr long kSlackKib = 4096;  // of the server's heap between two like moments

struct Answer {
    std::string thinking;
    std::string content;
    json::value usage;
};

std::string text_at(const json::value& message, const char* key) {
    const json::value* const found = message.as_object().if_contains(key);
    return found != nullptr && found->is_string() ? std::string(found->get_string())
                                                  : std::string();
}

Answer ask(const ServerProcess& server, const std::string& question, const std::string& fields) {
    const auto response =
        post(server.port(), kPath,
             R"({"messages":[{"role":"user","content":")" + question + "\"}]" + fields + "}",
             kAnswerTime);
    REQUIRE(response);
    INFO(response->body);
    REQUIRE(response->status == 200);
    const json::value reply = json::parse(response->body);
    const json::value& message = reply.at("choices").at(0).at("message");
    return {text_at(message, "reasoning_content"), text_at(message, "content"), reply.at("usage")};
}

std::int64_t reasoning_tokens(const Answer& answer) {
    return answer.usage.at("completion_tokens_details").at("reasoning_tokens").as_int64();
}

std::int64_t cached_tokens(const Answer& answer) {
    return answer.usage.at("prompt_tokens_details").at("cached_tokens").as_int64();
}

ServerOptions real(std::vector<std::string> server) {
    ServerOptions options;
    options.real_engine = true;
    options.server = std::move(server);
    options.server.insert(options.server.end(), {"--device", "cpu"});
    return options;
}

json::value newest_row(const ServerProcess& server) {
    const auto metrics = get(server.port(), "/metrics");
    REQUIRE(metrics);
    return json::parse(metrics->body).at("requests").at(0);
}

// Makes the demo model think at length.
const std::string kThinking = R"(,"reasoning_effort":"high")";
const std::string kQuestion = "What is 17 plus 25?";

std::string with_budget(std::int64_t tokens) {
    return kThinking + R"(,"reasoning_budget_tokens":)" + std::to_string(tokens);
}

}  // namespace

TEST_CASE("answers before and after an unload are equal and the engine's memory is given back") {
    ServerProcess server(real({"--conversation-cache-mib", "64"}));
    const Answer before = ask(server, "What is an otter?", "");
    const pid_t engine = server.engine_pid();
    CHECK(resident_kib(engine) > 0);
    const long server_before = resident_kib(server.pid());
    REQUIRE(post(server.port(), "/unload", "{}")->status == 200);
    CHECK_FALSE(process_lives(engine));
    CHECK(resident_kib(engine) == 0);
    CHECK(resident_kib(server.pid()) - server_before < kSlackKib);
    const auto metrics = get(server.port(), "/metrics");
    REQUIRE(metrics);
    const json::value shown = json::parse(metrics->body);
    CHECK(shown.at("live").at("state").as_string() == "unloaded");
    const json::value* const cache = shown.as_object().if_contains("conversation_cache");
    if (cache != nullptr && cache->is_object()) {
        CHECK(cache->as_object().if_contains("parked") == nullptr);
        CHECK(cache->as_object().if_contains("bytes") == nullptr);
    }
    const Answer after = ask(server, "What is an otter?", "");
    CHECK(after.content == before.content);
    CHECK(cached_tokens(after) == 0);
}

TEST_CASE("the demo model's thinking is cut at its budget and one row is kept") {
    ServerProcess server(real({}));
    const Answer first = ask(server, kQuestion, with_budget(20));
    CHECK(cached_tokens(first) == 0);  // the second pass's prompt does not count
    CHECK(newest_row(server).at("reused").as_int64() == 0);
    CHECK_FALSE(first.content.empty());
    const Answer free = ask(server, kQuestion, kThinking);
    const std::int64_t own = reasoning_tokens(free) - 1;  // without the marker that ends it
    INFO("it thinks " << own << " tokens by itself: " << free.thinking);
    REQUIRE(own >= 2);
    for (const std::int64_t budget : {std::int64_t{1}, own - 1, own, own + 1, own + 1000}) {
        const Answer answer = ask(server, kQuestion, with_budget(budget));
        INFO("budget " << budget << ": " << answer.thinking << " | " << answer.content);
        CHECK(reasoning_tokens(answer) <= budget);
        CHECK_FALSE(answer.content.empty());
        CHECK(free.thinking.starts_with(answer.thinking));
        if (budget >= own) {
            CHECK(answer.thinking == free.thinking);
            CHECK(answer.content == free.content);
        }
        CHECK(newest_row(server).at("output_tokens").as_int64() ==
              answer.usage.at("completion_tokens").as_int64());
    }
    const Answer none = ask(server, kQuestion, with_budget(0));
    const Answer off = ask(server, kQuestion, R"(,"enable_thinking":false)");
    CHECK(none.thinking.empty());
    CHECK(none.content == off.content);
    CHECK(server.log_has("reused + 1 read (source live)"));  // a second pass in mid-answer
}

TEST_CASE("an idle server whose engine went answers as before when it came back") {
    ServerProcess server(real({"--idle-unload", "1", "--lazy"}));
    const Answer first = ask(server, kQuestion, with_budget(5));
    const pid_t engine = server.engine_pid();
    REQUIRE(engine != 0);
    REQUIRE(eventually([&] { return !process_lives(engine); }));
    const Answer again = ask(server, kQuestion, with_budget(5));
    CHECK(again.content == first.content);
    CHECK(again.thinking == first.thinking);
}
