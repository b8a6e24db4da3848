// One level from every spelling, and which of several counts.
#include <string>

#include <catch2/catch.hpp>

#include "serve/api/completion_request.hpp"
#include "serve/api/openai_request.hpp"

using namespace strata::serve;

namespace {

ApiResult<ChatRequest> parsed(const std::string& fields) {
    return parse_openai_chat(R"({"messages":[{"role":"user","content":"hi"}],)" + fields + "}");
}

ThinkingLevel level(const std::string& fields) {
    INFO(fields);
    const auto request = parsed(fields);
    if (!request) FAIL(request.error().message);
    return request->thinking;
}

std::string param(const std::string& fields) {
    INFO(fields);
    const auto request = parsed(fields);
    REQUIRE_FALSE(request.ok());
    return request.error().param;
}

}  // namespace

TEST_CASE("each spelling of thinking becomes one level") {
    CHECK(level(R"("reasoning_effort":"low")") == ThinkingLevel::low);
    CHECK(level(R"("reasoning":{"effort":"low"})") == ThinkingLevel::low);
    CHECK(level(R"("reasoning":{"effort":"none"})") == ThinkingLevel::off);
    CHECK(level(R"("reasoning":{"enabled":false})") == ThinkingLevel::off);
    CHECK(level(R"("reasoning":{"enabled":true})") == ThinkingLevel::on);
    CHECK(level(R"("reasoning":{"summary":"auto"})") == ThinkingLevel::unset);
    CHECK(level(R"("thinking":true)") == ThinkingLevel::on);
    CHECK(level(R"("thinking":false)") == ThinkingLevel::off);
    CHECK(level(R"("thinking":{"type":"enabled","budget_tokens":1024})") == ThinkingLevel::on);
    CHECK(level(R"("thinking":{"type":"enabled","budget_tokens":0})") == ThinkingLevel::off);
    CHECK(level(R"("thinking":{"type":"adaptive"})") == ThinkingLevel::on);
    CHECK(level(R"("thinking":{"type":"disabled"})") == ThinkingLevel::off);
    CHECK(level(R"("chat_template_kwargs":{"enable_thinking":true})") == ThinkingLevel::on);
    CHECK(level(R"("chat_template_kwargs":{"enable_thinking":false})") == ThinkingLevel::off);
    CHECK(level(R"("chat_template_kwargs":{"reasoning_effort":"high"})") == ThinkingLevel::high);
    CHECK(level(R"("chat_template_kwargs":{"reasoning_effort":"its own word"})") ==
          ThinkingLevel::unset);
}

TEST_CASE("of several spellings the first in order counts and the template has the last word") {
    CHECK(level(R"("reasoning_effort":"low","reasoning":{"effort":"high"})") == ThinkingLevel::low);
    CHECK(level(R"("reasoning":{"effort":"high"},"thinking":{"type":"disabled"})") ==
          ThinkingLevel::high);
    CHECK(level(R"("thinking":{"type":"disabled"},"enable_thinking":true)") == ThinkingLevel::off);
    CHECK(level(R"("reasoning_effort":"high","chat_template_kwargs":{"enable_thinking":false})") ==
          ThinkingLevel::off);
    CHECK(level(R"("reasoning_effort":"none","chat_template_kwargs":{"enable_thinking":true})") ==
          ThinkingLevel::on);
    CHECK(level(R"("reasoning_effort":"high","chat_template_kwargs":{"enable_thinking":true})") ==
          ThinkingLevel::high);
}

TEST_CASE("a wrong word about thinking is named with its path") {
    CHECK(param(R"("reasoning":"high")") == "reasoning");
    CHECK(param(R"("reasoning":{"effort":"huge"})") == "reasoning.effort");
    CHECK(param(R"("reasoning":{"enabled":1})") == "reasoning.enabled");
    CHECK(param(R"("thinking":"x")") == "thinking");
    CHECK(param(R"("thinking":{})") == "thinking.type");
    CHECK(param(R"("thinking":{"type":"maybe"})") == "thinking.type");
    CHECK(param(R"("thinking":{"type":"enabled","budget_tokens":-1})") == "thinking.budget_tokens");
}

TEST_CASE("the fields of a text completion are checked as those of chat") {
    struct Row {
        const char* body;
        const char* param;
    };
    const Row rows[] = {
        {R"({})", "prompt"},
        {R"({"prompt":1})", "prompt"},
        {R"({"prompt":["a","b"]})", "prompt"},
        {R"({"prompt":[[1],[2]]})", "prompt"},
        {R"({"prompt":[null]})", "prompt[0]"},
        {R"({"prompt":[1,"a"]})", "prompt[1]"},
        {R"({"prompt":"x","echo":true})", "echo"},
        {R"({"prompt":"x","suffix":"y"})", "suffix"},
        {R"({"prompt":"x","logprobs":21})", "logprobs"},
        {R"({"prompt":"x","logprobs":true})", "logprobs"},
        {R"({"prompt":"x","n":2})", "n"},
        {R"({"prompt":"x","best_of":2})", "best_of"},
        {R"({"prompt":"x","temperature":3})", "temperature"},
        {R"({"prompt":"x","stop":[1]})", "stop[0]"},
    };
    for (const Row& row : rows) {
        INFO(row.body);
        const auto request = parse_openai_completion(row.body);
        REQUIRE_FALSE(request.ok());
        CHECK(request.error().param == row.param);
    }
    const auto good = parse_openai_completion(
        R"({"prompt":["x"],"logprobs":0,"echo":false,"suffix":"","best_of":1,"max_tokens":0})");
    REQUIRE(good.ok());
    CHECK(good->raw->text == "x");
    CHECK(good->logprobs);
    CHECK(good->top_logprobs == 0);
    CHECK(good->max_tokens == 0);
    CHECK_FALSE(parse_openai_completion(R"({"prompt":"x","logprobs":false})")->logprobs);
}
