// strata-serve with the real engine and the demo model: the recorded answers, over HTTP.
#include <csignal>
#include <fstream>
#include <sstream>
#include <string>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <catch2/catch.hpp>

#include "tests/serve/http/bad_inputs_check.hpp"
#include "tests/support/server_process.hpp"

using namespace strata::tests;
namespace json = boost::json;

namespace {

const std::string kPath = "/v1/chat/completions";
// <|im_start|> assistant \n <think> \n \n </think> \n \n, as the recorded ids have it.
constexpr std::int64_t kGenerationPromptTokens = 9;
constexpr Wait kAnswerTime{60'000};

std::string recorded(std::string_view name) {
    std::ifstream in(STRATA_SOURCE_DIR "/tools/demo_model/strata-demo-reference.json");
    std::ostringstream text;
    text << in.rdbuf();
    const json::value reference = json::parse(text.str());
    for (const json::value& prompt : reference.at("prompts").as_array()) {
        if (prompt.at("name").as_string() != json::string_view(name.data(), name.size())) continue;
        std::string answer(prompt.at("greedy_text").as_string());
        const std::size_t end = answer.find("<|im_end|>");
        return answer.substr(0, end);
    }
    return "no such prompt";
}

ServerOptions real() {
    ServerOptions options;
    options.real_engine = true;
    return options;
}

json::value ask(const ServerProcess& server, const json::value& body) {
    const auto response = post(server.port(), kPath, json::serialize(body), kAnswerTime);
    REQUIRE(response);
    INFO(response->body);
    REQUIRE(response->status == 200);
    return json::parse(response->body);
}

json::object say(std::string_view role, const std::string& content) {
    return {{"role", json::string_view(role.data(), role.size())}, {"content", content}};
}

std::string content_of(const json::value& reply) {
    return std::string(reply.at("choices").at(0).at("message").at("content").as_string());
}

std::int64_t cached_of(const json::value& reply) {
    return reply.at("usage").at("prompt_tokens_details").at("cached_tokens").as_int64();
}

const std::string kOtter = "What is an otter?";

}  // namespace

TEST_CASE("the demo answers its recorded prompts") {
    ServerProcess server(real());
    CHECK(content_of(ask(server, {{"messages", {say("user", kOtter)}}})) == recorded("definition"));
    CHECK(content_of(ask(server, {{"messages", {say("user", "Hello!")}}})) == recorded("greeting"));
    const json::value recall = {
        {"messages",
         {say("user", "My codename is Silver Lynx and I live in Bergen."),
          say("assistant", "Noted."), say("user", "What is 12 plus 30?"),
          say("assistant", "12 plus 30 is 42."), say("user", "What is my codename?")}}};
    CHECK(content_of(ask(server, recall)) == recorded("recall"));
}

TEST_CASE("the demo thinks when it is asked to") {
    ServerProcess server(real());
    const json::value reply = ask(server, {{"messages", {say("user", "What is 23 times 4?")}},
                                           {"reasoning_effort", "medium"}});
    const std::string whole = recorded("thinking");
    const std::size_t close = whole.find("\n</think>\n\n");
    CHECK(reply.at("choices").at(0).at("message").at("reasoning_content").as_string() ==
          json::string(whole.substr(0, close)));
    CHECK(content_of(reply) == whole.substr(close + std::string("\n</think>\n\n").size()));
}

TEST_CASE("a second turn reads only its tail") {
    ServerProcess server(real());
    for (const bool with_system : {false, true}) {
        INFO(with_system);
        json::array messages;
        if (with_system) messages.push_back(say("system", "You are a patient teacher of animals."));
        messages.push_back(say("user", kOtter));
        const json::value first = ask(server, {{"messages", messages}});
        const std::int64_t first_prompt = first.at("usage").at("prompt_tokens").as_int64();
        messages.push_back(say("assistant", content_of(first)));
        messages.push_back(say("user", "Thank you!"));
        const json::value second = ask(server, {{"messages", messages}});
        // Up to the turn that the first answer began: the old answer comes back without its think
        // block.
        CHECK(cached_of(second) >= first_prompt - kGenerationPromptTokens);
        CHECK(cached_of(second) < second.at("usage").at("prompt_tokens").as_int64());
    }
}

TEST_CASE("after its engine was killed the demo gives the same answer") {
    ServerProcess server(real());
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(
        kPath,
        R"({"messages":[{"role":"user","content":"Hello!"}],"stream":true,"ignore_eos":true})")));
    REQUIRE(client.head()->status == 200);
    for (int i = 0; i < 5; ++i) REQUIRE(client.event());
    ::kill(server.engine_pid(), SIGKILL);
    std::string last;
    while (const auto event = client.event()) last = *event;
    CHECK(last.find(R"({"error":{"message":)") != std::string::npos);
    CHECK(content_of(ask(server, {{"messages", {say("user", kOtter)}}})) == recorded("definition"));
    CHECK(get(server.port(), "/metrics")->body.find(R"("epoch":2)") != std::string::npos);
}

TEST_CASE("a message cannot write control tokens") {
    ServerProcess server(real());
    const json::value plain = ask(server, {{"messages", {say("user", "abc")}}, {"max_tokens", 1}});
    const json::value sneaky =
        ask(server, {{"messages", {say("user", "<|im_end|>")}}, {"max_tokens", 1}});
    // As a control token it would be one id in the place of `abc`; as text it is several.
    CHECK(sneaky.at("usage").at("prompt_tokens").as_int64() >
          plain.at("usage").at("prompt_tokens").as_int64());
}

TEST_CASE("bad inputs do not change what the demo answers") {
    check_bad_inputs(real());
}
