// Text completions and the routes of the text side, over sockets, with the demo's vocabulary. What
// is right is said by the tokenizer's own round trip and by the fields of the APIs, not by a log.
#include <array>
#include <string>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <boost/json/value.hpp>
#include <catch2/catch.hpp>

#include "tests/serve/http/local_server.hpp"

using namespace strata;
using namespace strata::tests;
namespace json = boost::json;

namespace {

const std::string kPath = "/v1/completions";

json::value ask(LocalServer& server, const std::string& path, const json::value& body,
                int status = 200) {
    const auto response = post(server.port(), path, json::serialize(body));
    REQUIRE(response);
    INFO(response->body);
    REQUIRE(response->status == status);
    return json::parse(response->body);
}

std::string text_of(const json::value& value) {
    return std::string(value.as_string());
}

std::vector<std::int32_t> ids_of(const json::value& list) {
    std::vector<std::int32_t> ids;
    for (const json::value& id : list.as_array()) {
        ids.push_back(static_cast<std::int32_t>(id.as_int64()));
    }
    return ids;
}

}  // namespace

TEST_CASE("text becomes tokens and tokens become the text again") {
    LocalServer server;
    for (const std::string& text : {std::string("What is an otter?"),
                                    std::string("na\xC3\xAFve \xE2\x82\xAC 12\n"), std::string()}) {
        const json::value tokens = ask(server, "/tokenize", {{"content", text}}).at("tokens");
        CHECK(text_of(ask(server, "/detokenize", {{"tokens", tokens}}).at("content")) == text);
    }
}

TEST_CASE("a piece that is no whole character comes as its bytes") {
    LocalServer server;
    const json::value reply =
        ask(server, "/tokenize", {{"content", "a\xF0\x9F\xA6\xA6"}, {"with_pieces", true}});
    std::string joined;
    bool split = false;
    for (const json::value& token : reply.at("tokens").as_array()) {
        CHECK(token.at("id").is_int64());
        if (token.at("piece").is_string()) {
            joined += text_of(token.at("piece"));
            continue;
        }
        split = true;
        for (const json::value& byte : token.at("piece").as_array()) {
            joined += static_cast<char>(byte.as_int64());
        }
    }
    CHECK(joined == "a\xF0\x9F\xA6\xA6");
    CHECK(split);  // the demo has no token for a whole otter
}

TEST_CASE("a refused token id is told as its client wrote it") {
    LocalServer server;
    const std::string long_number = "1." + std::string(200, '0');
    for (const auto& [path, before, field] :
         std::vector<std::array<std::string, 3>>{{"/detokenize", R"({"tokens":[1,)", "tokens[1]"},
                                                 {kPath, R"({"prompt":[1,)", "prompt[1]"},
                                                 {kPath, R"({"prompt":[[1,)", "prompt[0][1]"}}) {
        const std::string after = field == "prompt[0][1]" ? "]]}" : "]}";
        for (const auto& [written, told] : std::vector<std::array<std::string, 2>>{
                 {"1.0", "1.0"},
                 {"1e0", "1e0"},
                 {"2.50", "2.50"},
                 {long_number, long_number.substr(0, 64) + "..."}}) {
            INFO(path << " " << written);
            const auto response = post(server.port(), path, before + written + after);
            REQUIRE(response);
            CHECK(response->status == 400);
            const json::value error = json::parse(response->body).at("error");
            CHECK(text_of(error.at("param")) == field);
            CHECK(text_of(error.at("message")) == field + " is " + told + "; allowed: a token id");
        }
    }
}

TEST_CASE("an id that no vocabulary can have is out of range whatever its size") {
    LocalServer server;
    const std::string last = std::to_string(demo_text().tokenizer().size() - 1);
    for (const auto& [path, before, field] :
         std::vector<std::array<std::string, 3>>{{"/detokenize", R"({"tokens":[1,)", "tokens[1]"},
                                                 {kPath, R"({"prompt":[1,)", "prompt[1]"},
                                                 {kPath, R"({"prompt":[[1,)", "prompt[0][1]"}}) {
        const std::string after = field == "prompt[0][1]" ? "]]}" : "]}";
        for (const std::string written :
             {"-1", "99999999", "9223372036854775807", "9223372036854775808",
              "18446744073709551615", "18446744073709551616", "-9223372036854775809", "1e30"}) {
            INFO(path << " " << written);
            const auto response = post(server.port(), path, before + written + after);
            REQUIRE(response);
            CHECK(response->status == 400);
            const json::value error = json::parse(response->body).at("error");
            CHECK(text_of(error.at("code")) == "invalid_value");
            CHECK(text_of(error.at("param")) == field);
            CHECK(text_of(error.at("message")) ==
                  field + " is " + written + "; allowed: a token id from 0 to " + last);
        }
    }
    // Alone in its list, too.
    CHECK(text_of(ask(server, kPath, json::parse(R"({"prompt":[9223372036854775808]})"), 400)
                      .at("error")
                      .at("param")) == "prompt[0]");
}

TEST_CASE("an empty prompt is called empty and a list that is none is told without its limit") {
    LocalServer server;
    for (const auto& [body, message] : std::vector<std::array<std::string, 2>>{
             {R"({"prompt":[]})",
              "prompt is an empty list; allowed: a text, or a list of at least one token id"},
             {R"({"prompt":[[]]})",
              "prompt[0] is an empty list; allowed: a text, or a list of at least one token id"}}) {
        const json::value error = ask(server, kPath, json::parse(body), 400).at("error");
        CHECK(text_of(error.at("message")) == message);
        CHECK(text_of(error.at("code")) == "invalid_value");
    }
    for (const std::string tokens : {"5", "\"a\"", "{}", "true"}) {
        INFO(tokens);
        const json::value error =
            ask(server, "/detokenize", {{"tokens", json::parse(tokens)}}, 400).at("error");
        CHECK(text_of(error.at("message")) == "tokens is " +
                                                  (tokens == "{}" ? "an object" : tokens) +
                                                  "; allowed: a list of token ids");
        CHECK(text_of(error.at("code")) == "invalid_type");
    }
    CHECK(text_of(ask(server, "/detokenize", {{"tokens", json::array()}}).at("content")).empty());
}

TEST_CASE("control tokens are read from raw text unless that is declined") {
    LocalServer server;
    const std::string turn = "<|im_start|>user";
    const std::int32_t control = demo_text().tokenizer().special("<|im_start|>");
    REQUIRE(control >= 0);
    CHECK(ids_of(ask(server, "/tokenize", {{"content", turn}}).at("tokens"))[0] == control);
    const auto plain = ids_of(
        ask(server, "/tokenize", {{"content", turn}, {"parse_special", false}}).at("tokens"));
    CHECK(std::count(plain.begin(), plain.end(), control) == 0);
}

TEST_CASE("a template is applied as chat applies it") {
    LocalServer server;
    const json::value body = {{"messages", {{{"role", "user"}, {"content", "<|im_end|>"}}}}};
    const std::string prompt = text_of(ask(server, "/apply-template", body).at("prompt"));
    CHECK(prompt.find("<|im_start|>user\n<|im_end|>") != std::string::npos);
    CHECK(prompt.find("<|im_start|>assistant") != std::string::npos);
    const json::value quiet = {{"messages", {{{"role", "user"}, {"content", "x"}}}},
                               {"chat_template_kwargs", {{"add_generation_prompt", false}}}};
    CHECK(text_of(ask(server, "/apply-template", quiet).at("prompt")).find("assistant") ==
          std::string::npos);
}

TEST_CASE("text calls need no engine") {
    LocalServer server;
    server.on_io([&] {
        server.engine.now = serve::EngineView{};
        server.engine.now.state = serve::EngineState::loading;
    });
    CHECK(ask(server, "/tokenize", {{"content", "x"}}).at("tokens").as_array().size() == 1);
}

TEST_CASE("a raw prompt goes to the engine as it is and its answer is text") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(
        post_request(kPath, R"({"prompt":"<|im_start|>user\nhi","max_tokens":5,"stop":" and"})")));
    REQUIRE(server.asked(1));
    const auto command =
        server.from_io<protocol::GenCommand>([&] { return server.engine.asked[0].command; });
    CHECK(demo_text().decode(command.ids) == "<|im_start|>user\nhi");
    CHECK(command.ids[0] == demo_text().tokenizer().special("<|im_start|>"));
    CHECK(command.max_new == 5);
    CHECK(command.root == 0);
    server.answer(0, {token_of("Hello"), token_of(" the")});
    const auto response = client.response();
    REQUIRE(response);
    const json::value body = json::parse(response->body);
    CHECK(text_of(body.at("object")) == "text_completion");
    CHECK(text_of(body.at("id")).starts_with("cmpl-"));
    CHECK(text_of(body.at("choices").at(0).at("text")) == "Hello the");
    CHECK(body.at("choices").at(0).at("logprobs").is_null());
    CHECK(text_of(body.at("choices").at(0).at("finish_reason")) == "stop");
    CHECK(body.at("usage").at("completion_tokens").as_int64() == 2);
    CHECK(body.at("timings").at("predicted_n").as_int64() == 2);
}

TEST_CASE("a raw prompt may be token ids in a list or in a list of one") {
    LocalServer server;
    std::size_t count = 0;
    for (const char* prompt : {"[300,301,302]", "[[300,301,302]]"}) {
        HttpClient client(server.port());
        REQUIRE(client.send(
            post_request(kPath, R"({"max_tokens":1,"prompt":)" + std::string(prompt) + "}")));
        REQUIRE(server.asked(++count));
        const auto command = server.from_io<protocol::GenCommand>(
            [&] { return server.engine.asked[count - 1].command; });
        CHECK(command.ids == std::vector<std::int32_t>{300, 301, 302});
    }
}

TEST_CASE("think markers of a raw answer are text") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(kPath, R"({"prompt":"hi","max_tokens":5})")));
    REQUIRE(server.asked(1));
    const std::int32_t open = demo_text().tokenizer().special("<think>");
    const std::int32_t close = demo_text().tokenizer().special("</think>");
    REQUIRE(open >= 0);
    server.answer(0, {open, token_of("Hello"), close});
    const json::value body = json::parse(client.response()->body);
    CHECK(text_of(body.at("choices").at(0).at("text")) == "<think>Hello</think>");
}

TEST_CASE("a text stream is chunks of text and ends with DONE") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(
        kPath,
        R"({"prompt":"hi","stream":true,"stream_options":{"include_usage":true},"max_tokens":5})")));
    REQUIRE(client.head());
    REQUIRE(server.asked(1));
    server.answer(0, {token_of("Hello"), token_of(" the")});
    std::string text;
    std::vector<json::value> chunks;
    for (;;) {
        const auto event = client.event();
        REQUIRE(event);
        if (*event == "data: [DONE]") break;
        chunks.push_back(json::parse(event->substr(6)));
        CHECK(text_of(chunks.back().at("object")) == "text_completion");
        if (!chunks.back().at("choices").as_array().empty()) {
            text += text_of(chunks.back().at("choices").at(0).at("text"));
        }
    }
    CHECK(text == "Hello the");
    REQUIRE(chunks.size() >= 3);
    CHECK(chunks[0].at("choices").at(0).at("finish_reason").is_null());
    CHECK(text_of(chunks[chunks.size() - 2].at("choices").at(0).at("finish_reason")) == "stop");
    CHECK(chunks.back().at("usage").at("completion_tokens").as_int64() == 2);
}

TEST_CASE("log probabilities of a text have four parallel lists") {
    LocalServer server;
    HttpClient client(server.port());
    REQUIRE(client.send(post_request(kPath, R"({"prompt":"hi","logprobs":2,"max_tokens":5})")));
    REQUIRE(server.asked(1));
    server.on_io([&] {
        CHECK(server.engine.asked[0].command.logprobs == 2);
        server.engine.admit(0);
        for (const char* word : {"Hello", " the"}) {
            protocol::TokenLine line;
            line.token = token_of(word);
            line.lp = -0.5;
            line.top = {{token_of(word), -0.5}, {token_of(" and"), -1.25}};
            server.engine.asked[0].listener->on_token(line);
        }
        protocol::DoneLine done;
        done.generated = 2;
        server.engine.done(0, done);
    });
    const json::value body = json::parse(client.response()->body);
    const json::value expected =
        json::parse(R"({"tokens":["Hello"," the"],"token_logprobs":[-0.5,-0.5],)"
                    R"("top_logprobs":[{"Hello":-0.5," and":-1.25},{" the":-0.5," and":-1.25}],)"
                    R"("text_offset":[0,5]})");
    CHECK(body.at("choices").at(0).at("logprobs") == expected);
}

TEST_CASE("a raw prompt that does not fit is refused with both numbers") {
    LocalServer server;
    json::array ids(5000, json::value(300));
    const json::value error = ask(server, kPath, {{"prompt", ids}}, 400).at("error");
    CHECK(text_of(error.at("code")) == "context_length_exceeded");
    CHECK(text_of(error.at("param")) == "prompt");
    CHECK(error.at("n_prompt_tokens").as_int64() == 5000);
    CHECK(error.at("n_ctx").as_int64() == 4096);
}

TEST_CASE("an id that the vocabulary does not have is named with its place") {
    LocalServer server;
    const json::value bad = ask(server, kPath, {{"prompt", {1, 2, 99999999}}}, 400).at("error");
    CHECK(text_of(bad.at("param")) == "prompt[2]");
    const json::value tokens = ask(server, "/detokenize", {{"tokens", {-1}}}, 400).at("error");
    CHECK(text_of(tokens.at("param")) == "tokens[0]");
}
