// The thinking budget: its arithmetic, and both passes as the engine, the client and the history
// see them. The engine is played by the test; the vocabulary and the template are the demo model's.
#include "serve/api/thinking_budget.hpp"

#include <string>
#include <vector>

#include <boost/json/parse.hpp>
#include <boost/json/value.hpp>
#include <catch2/catch.hpp>

#include "tests/serve/http/local_server.hpp"
#include "tests/support/server_process.hpp"

using namespace strata;
using namespace strata::tests;
namespace json = boost::json;

namespace {

const std::string kPath = "/v1/chat/completions";
using Ids = std::vector<std::int32_t>;

std::string thinking_chat(const std::string& fields) {
    return R"({"messages":[{"role":"user","content":"hi"}],"enable_thinking":true)" + fields + "}";
}

Ids ids_of(const std::string& text) {
    return *demo_text().encode(text, serve::ParseSpecial::yes, serve::EdgeTokens::none);
}

// What the engine was asked as its request number `index`.
protocol::GenCommand command(LocalServer& server, std::size_t index) {
    REQUIRE(server.asked(index + 1));
    return server.from_io<protocol::GenCommand>([&] { return server.engine.asked[index].command; });
}

struct Figures {
    std::int64_t reused = 0;
    std::int64_t read = 0;
    protocol::Finish finish = protocol::Finish::length;
};

// The engine writes `tokens` for request `index` and says DONE.
void write(LocalServer& server, std::size_t index, const Ids& tokens, const Figures& figures) {
    server.on_io([&] {
        server.engine.admit(index);
        for (const std::int32_t id : tokens) server.engine.token(index, id);
        protocol::DoneLine done;
        done.id = server.engine.asked[index].id;
        done.generated = static_cast<std::int64_t>(tokens.size());
        done.prompt_tokens =
            static_cast<std::int64_t>(server.engine.asked[index].command.ids.size());
        done.reused = figures.reused;
        done.prompt_read = figures.read;
        done.prompt_ms = 10;
        done.decode_ms = 20;
        done.finish = figures.finish;
        done.cache_fields =
            protocol::CacheFields{index == 0, false, static_cast<std::int64_t>(index), 100, 0};
        server.engine.done(index, done);
    });
}

json::value reply_of(HttpClient& client) {
    const auto response = client.response();
    REQUIRE(response);
    INFO(response->body);
    REQUIRE(response->status == 200);
    return json::parse(response->body);
}

const json::value& message_of(const json::value& reply) {
    return reply.at("choices").at(0).at("message");
}

Ids joined(Ids a, const Ids& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

}  // namespace

TEST_CASE("the cap leaves room for an answer in max_tokens and in the context") {
    struct Row {
        std::int64_t budget, total, room, closing, cap;
    };
    const std::vector<Row> rows = {
        {0, 1000, 4000, 3, 0},         {1, 1000, 4000, 3, 1},     {488, 1000, 4000, 3, 488},
        {500, 1000, 4000, 3, 500},     {501, 1000, 4000, 3, 500}, {9000, 2000, 4000, 3, 1488},
        {9000, 4000, 4000, 3, 3485},   {9000, 1, 4000, 3, 0},     {9000, 2, 4000, 3, 1},
        {9000, 3, 4000, 3, 1},         {9000, 100, 100, 3, 47},   {5, 4, 4, 3, 0},
        {2'147'483'647, 10, 10, 0, 5},
    };
    for (const Row& row : rows) {
        INFO("budget " << row.budget << " total " << row.total << " room " << row.room);
        CHECK(serve::thinking_cap(row.budget, row.total, row.room, row.closing) == row.cap);
    }
}

TEST_CASE("thinking that is longer than its budget is ended and the answer follows") {
    const bool stream = GENERATE(false, true);
    LocalServer server;
    HttpClient client(server.port());
    const std::string fields = R"(,"reasoning_budget_tokens":3,"max_tokens":50)";
    REQUIRE(client.send(post_request(
        kPath,
        thinking_chat(fields + (stream ? R"(,"stream":true,"stream_options":{"include_usage":true})"
                                       : "")))));
    const protocol::GenCommand first = command(server, 0);
    CHECK(first.max_new == 3);
    const Ids thought = {token_of("Hello"), token_of(" the"), token_of(" and")};
    write(server, 0, thought, {2, static_cast<std::int64_t>(first.ids.size()) - 2});
    const protocol::GenCommand second = command(server, 1);
    const Ids closing = ids_of("\n</think>\n\n");
    CHECK(second.ids == joined(joined(first.ids, thought), closing));
    CHECK(second.max_new == 47);
    CHECK(second.root == first.root);
    CHECK(second.temperature == first.temperature);
    const auto held = static_cast<std::int64_t>(first.ids.size() + thought.size());
    write(server, 1, {token_of(" the"), token_of("Hello")},
          {held, static_cast<std::int64_t>(closing.size()), protocol::Finish::stop});
    json::value usage;
    if (stream) {
        REQUIRE(client.head());
        std::string reasoning;
        std::string answer;
        bool answer_began = false;
        while (const auto event = client.event()) {
            if (event->find("[DONE]") != std::string::npos) break;
            const json::value chunk = json::parse(event->substr(6));
            if (chunk.at("choices").as_array().empty()) {
                usage = chunk.at("usage");
                continue;
            }
            const json::object& delta = chunk.at("choices").at(0).at("delta").as_object();
            if (const json::value* part = delta.if_contains("reasoning_content")) {
                CHECK_FALSE(answer_began);
                reasoning += part->as_string();
            }
            if (const json::value* part = delta.if_contains("content")) {
                answer_began = answer_began || !part->as_string().empty();
                answer += part->as_string();
            }
        }
        CHECK(reasoning == "Hello the and");
        CHECK(answer == " theHello");
    } else {
        const json::value reply = reply_of(client);
        CHECK(message_of(reply).at("reasoning_content").as_string() == "Hello the and");
        CHECK(message_of(reply).at("content").as_string() == " theHello");
        CHECK(reply.at("choices").at(0).at("finish_reason").as_string() == "stop");
        usage = reply.at("usage");
    }
    CHECK(usage.at("prompt_tokens").as_int64() == static_cast<std::int64_t>(first.ids.size()));
    CHECK(usage.at("completion_tokens").as_int64() == 5);
    CHECK(usage.at("prompt_tokens_details").at("cached_tokens").as_int64() == 2);
    CHECK(usage.at("completion_tokens_details").at("reasoning_tokens").as_int64() == 3);
    server.on_io([&] {
        REQUIRE(server.finished.size() == 1);
        const protocol::DoneLine& row = *server.finished[0].done;
        CHECK(row.generated == 5);
        CHECK(row.prompt_tokens == static_cast<std::int64_t>(first.ids.size()));
        CHECK(row.reused == 2);
        CHECK(row.decode_ms == 40);
        CHECK(row.cache_fields->switched);
        CHECK(row.cache_fields->parked == 1);  // of the last pass
    });
}

TEST_CASE("thinking that ends by itself at the border is not touched") {
    // The model thinks two tokens, then closes.
    const std::int64_t budget = GENERATE(1, 2, 3, 4);
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(
        kPath,
        thinking_chat(R"(,"max_tokens":50,"reasoning_budget_tokens":)" + std::to_string(budget)))));
    const protocol::GenCommand first = command(server, 0);
    REQUIRE(first.max_new == budget);
    const Ids own = joined({token_of("Hello"), ids_of("\n").at(0)},
                           joined(ids_of("</think>"), {token_of(" the")}));
    const Ids written(own.begin(), own.begin() + budget);
    write(server, 0, written, {});
    const protocol::GenCommand second = command(server, 1);
    Ids closing;
    if (budget == 1) closing = ids_of("\n</think>\n\n");
    if (budget == 2) closing = ids_of("</think>\n\n");  // the line has ended already
    CHECK(second.ids == joined(joined(first.ids, written), closing));
    CHECK(second.max_new == 50 - budget);
    write(server, 1, {token_of(" and")}, {0, 1, protocol::Finish::stop});
    const json::value reply = reply_of(client);
    CHECK(message_of(reply).at("reasoning_content").as_string() == "Hello");
    CHECK(std::string(message_of(reply).at("content").as_string()).ends_with("and"));
}

TEST_CASE("an answer that ends in the first pass needs no second") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(kPath, thinking_chat(R"(,"reasoning_budget_tokens":9)"))));
    REQUIRE(server.asked(1));
    write(server, 0, joined(ids_of("</think>"), {token_of("Hello")}),
          {0, 1, protocol::Finish::stop});
    CHECK(message_of(reply_of(client)).at("content").as_string() == "Hello");
    CHECK(server.from_io<std::size_t>([&] { return server.engine.asked.size(); }) == 1);
}

TEST_CASE("a budget of nothing answers without thinking in one pass") {
    LocalServer server;
    const std::string off =
        R"({"messages":[{"role":"user","content":"hi"}],"enable_thinking":false})";
    const std::string forced =
        R"({"messages":[{"role":"user","content":"hi"}],"reasoning_budget_tokens":0,)"
        R"("chat_template_kwargs":{"enable_thinking":true}})";
    HttpClient plain(server.port());
    REQUIRE(plain.send(post_request(kPath, off)));
    const Ids without = command(server, 0).ids;
    HttpClient zero(server.port());
    REQUIRE(zero.send(post_request(kPath, thinking_chat(R"(,"reasoning_budget_tokens":0)"))));
    CHECK(command(server, 1).ids == without);
    // A template that is told to think all the same gets the end of it with the prompt.
    HttpClient told(server.port());
    REQUIRE(told.send(post_request(kPath, forced)));
    const protocol::GenCommand closed = command(server, 2);
    const Ids closing = ids_of("\n</think>\n\n");
    REQUIRE(closed.ids.size() > closing.size());
    CHECK(Ids(closed.ids.end() - static_cast<std::ptrdiff_t>(closing.size()), closed.ids.end()) ==
          closing);
    write(server, 2, {token_of("Hello")}, {0, 1, protocol::Finish::stop});
    CHECK(message_of(reply_of(told)).at("content").as_string() == "Hello");
    CHECK(server.from_io<std::size_t>([&] { return server.engine.asked.size(); }) == 3);
}

TEST_CASE("the configuration's budget counts for requests that name none") {
    serve::ApiSettings settings;
    settings.defaults.thinking_budget = 7;
    LocalServer server({}, settings);
    HttpClient silent(server.port());
    REQUIRE(silent.send(post_request(kPath, thinking_chat(""))));
    CHECK(command(server, 0).max_new == 7);
    HttpClient named(server.port());
    REQUIRE(named.send(post_request(kPath, thinking_chat(R"(,"reasoning_budget_tokens":5)"))));
    CHECK(command(server, 1).max_new == 5);
    // Without thinking there is nothing to cap, nor in a raw prompt.
    HttpClient off(server.port());
    REQUIRE(off.send(post_request(kPath, kChatBody)));
    CHECK(command(server, 2).max_new > 1000);
    HttpClient raw(server.port());
    REQUIRE(raw.send(post_request("/v1/completions", R"({"prompt":"hi","max_tokens":90})")));
    CHECK(command(server, 3).max_new == 90);
}

TEST_CASE("a client that leaves cancels the pass that runs") {
    const bool in_second = GENERATE(false, true);
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(kPath, thinking_chat(R"(,"reasoning_budget_tokens":1)"))));
    REQUIRE(server.asked(1));
    if (in_second) {
        write(server, 0, {token_of("Hello")}, {});
        REQUIRE(server.asked(2));
    } else {
        server.on_io([&] { server.engine.admit(0); });
    }
    client.close();
    REQUIRE(server.cancelled(1));
    server.on_io([&] {
        CHECK(server.engine.cancelled[0] == server.engine.asked[in_second ? 1 : 0].id);
        REQUIRE(server.finished.size() == 1);
        CHECK(server.finished[0].finish == serve::AnswerFinish::cancel);
    });
    CHECK(server.from_io<std::size_t>([&] { return server.engine.asked.size(); }) ==
          (in_second ? 2 : 1));
}

TEST_CASE("an engine that dies in either pass is told once") {
    const bool in_second = GENERATE(false, true);
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(
        post_request(kPath, thinking_chat(R"(,"reasoning_budget_tokens":1,"stream":true)"))));
    REQUIRE(server.asked(1));
    if (in_second) write(server, 0, {token_of("Hello")}, {});
    REQUIRE(server.asked(in_second ? 2 : 1));
    server.on_io([&] {
        serve::EngineFailure failure;
        failure.text = "the engine ended";
        server.engine.fail(in_second ? 1 : 0, failure);
    });
    REQUIRE(client.head());
    int errors = 0;
    while (const auto event = client.event()) {
        if (event->find(R"("error")") != std::string::npos) ++errors;
        CHECK(event->find(R"("finish_reason":"stop")") == std::string::npos);
    }
    CHECK(errors == 1);
    server.on_io([&] {
        REQUIRE(server.finished.size() == 1);
        // What the first pass did was done.
        CHECK(server.finished[0].done.has_value() == in_second);
        CHECK(server.finished[0].finish == serve::AnswerFinish::error);
        CHECK(server.finished[0].output_tokens == (in_second ? 1 : 0));
    });
}

TEST_CASE("a stop string ends the answer in whichever pass it comes") {
    const bool in_second = GENERATE(false, true);
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(
        post_request(kPath, thinking_chat(R"(,"reasoning_budget_tokens":3,"stop":["Hello"])"))));
    REQUIRE(server.asked(1));
    const Ids close = ids_of("</think>");
    if (in_second) {
        write(server, 0, {token_of("Hello"), token_of("Hello"), token_of("Hello")}, {});
        REQUIRE(server.asked(2));
        write(server, 1, {token_of(" the"), token_of("Hello")}, {0, 1, protocol::Finish::cancel});
    } else {
        // Met with the last token that the pass had: its end is no reason for another one.
        write(server, 0, joined(close, {token_of(" the"), token_of("Hello")}), {});
    }
    const json::value reply = reply_of(client);
    CHECK(message_of(reply).at("content").as_string() ==
          (in_second ? " the" : "the"));  // the line of the own marker goes with it
    CHECK(reply.at("choices").at(0).at("finish_reason").as_string() == "stop");
    CHECK(server.from_io<std::size_t>([&] { return server.engine.asked.size(); }) ==
          (in_second ? 2 : 1));
}

TEST_CASE("max_tokens holds for both passes together") {
    const std::int64_t most = GENERATE(1, 2, 3, 10);
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(
        kPath,
        thinking_chat(R"(,"reasoning_budget_tokens":100,"max_tokens":)" + std::to_string(most)))));
    const protocol::GenCommand first = command(server, 0);
    const std::int64_t thought = most == 1 ? 0 : most / 2;
    Ids words(static_cast<std::size_t>(thought), token_of("Hello"));
    std::size_t last = 0;
    if (thought > 0) {
        CHECK(first.max_new == thought);
        write(server, 0, words, {});
        last = 1;
    }
    CHECK(command(server, last).max_new == most - thought);
    write(server, last, Ids(static_cast<std::size_t>(most - thought), token_of(" the")), {});
    const json::value reply = reply_of(client);
    CHECK(reply.at("choices").at(0).at("finish_reason").as_string() == "length");
    CHECK(reply.at("usage").at("completion_tokens").as_int64() == most);
    CHECK_FALSE(message_of(reply).at("content").as_string().empty());
}

TEST_CASE("a bad budget is refused by its path in every spelling") {
    LocalServer server;
    const std::vector<std::pair<std::string, std::string>> spellings = {
        {R"("reasoning_budget_tokens":@)", "reasoning_budget_tokens"},
        {R"("thinking_token_budget":@)", "thinking_token_budget"},
        {R"("reasoning":{"max_tokens":@})", "reasoning.max_tokens"},
        {R"("thinking":{"type":"enabled","budget_tokens":@})", "thinking.budget_tokens"},
    };
    for (const auto& [field, path] : spellings) {
        for (const std::string value :
             {"-1", "1.5", "\"5\"", "true", "[]", "2147483648", "1e400"}) {
            std::string body = "," + field;
            body.replace(body.find('@'), 1, value);
            const auto response = post(server.port(), kPath, thinking_chat(body));
            REQUIRE(response);
            INFO(body << " -> " << response->body);
            CHECK(response->status == 400);
            if (value == "1e400") continue;  // no JSON number at all
            CHECK(response->body.find("\"param\":\"" + path + "\"") != std::string::npos);
        }
        std::string body = "," + field;
        body.replace(body.find('@'), 1, "5");
        HttpClient client(server.port());
        const std::size_t before =
            server.from_io<std::size_t>([&] { return server.engine.asked.size(); });
        REQUIRE(client.send(post_request(kPath, thinking_chat(body))));
        CHECK(command(server, before).max_new == 5);
    }
}
