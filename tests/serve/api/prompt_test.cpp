// From a request to template variables and to the engine's command.
#include "serve/api/prompt.hpp"

#include <string>

#include <catch2/catch.hpp>

using namespace strata;
using namespace strata::serve;

namespace {

const TemplateValue* find(const TemplateDict& dict, std::string_view name) {
    for (const auto& [key, value] : dict) {
        if (key == name) return &value;
    }
    return nullptr;
}

std::string text(const TemplateValue& value) {
    return std::get<std::string>(value.held());
}

const TemplateDict& message(const TemplateDict& variables, std::size_t index) {
    const auto& list = std::get<TemplateList>(find(variables, "messages")->held());
    REQUIRE(index < list.size());
    return std::get<TemplateDict>(list[index].held());
}

std::size_t messages(const TemplateDict& variables) {
    return std::get<TemplateList>(find(variables, "messages")->held()).size();
}

ChatMessage say(Role role, std::string content) {
    ChatMessage message;
    message.role = role;
    message.content = std::move(content);
    return message;
}

RenderedPrompt prompt_of(std::size_t tokens) {
    RenderedPrompt prompt;
    prompt.ids.assign(tokens, 7);
    prompt.root_tokens = 3;
    return prompt;
}

}  // namespace

TEST_CASE("leading system messages become one") {
    ChatRequest request;
    request.messages = {say(Role::system, "a"), say(Role::developer, "b"), say(Role::user, "c"),
                        say(Role::system, "d")};
    const TemplateDict variables = template_variables(request, false);
    REQUIRE(messages(variables) == 3);
    CHECK(text(*find(message(variables, 0), "role")) == "system");
    CHECK(text(*find(message(variables, 0), "content")) == "a\n\nb");
    CHECK(text(*find(message(variables, 2), "role")) == "system");
}

TEST_CASE("a developer is a system unless the template knows better") {
    ChatRequest request;
    request.messages = {say(Role::developer, "a")};
    CHECK(text(*find(message(template_variables(request, false), 0), "role")) == "system");
    CHECK(text(*find(message(template_variables(request, true), 0), "role")) == "developer");
}

TEST_CASE("a history of tools reaches the template") {
    ChatRequest request;
    ChatMessage calls = say(Role::assistant, "");
    calls.content.reset();
    calls.reasoning = "r";
    calls.tool_calls = {{"c1", "f", TemplateValue(TemplateDict{{"x", TemplateValue(true)}})}};
    ChatMessage result = say(Role::tool, "42");
    result.tool_call_id = "c1";
    request.messages = {say(Role::user, "u"), calls, result};
    const TemplateDict variables = template_variables(request, false);
    const TemplateDict& call_message = message(variables, 1);
    CHECK(std::holds_alternative<std::monostate>(find(call_message, "content")->held()));
    CHECK(text(*find(call_message, "reasoning_content")) == "r");
    const auto& list = std::get<TemplateList>(find(call_message, "tool_calls")->held());
    const auto& call = std::get<TemplateDict>(list.at(0).held());
    CHECK(text(*find(call, "type")) == "function");
    const auto& function = std::get<TemplateDict>(find(call, "function")->held());
    CHECK(text(*find(function, "name")) == "f");
    CHECK(std::holds_alternative<TemplateDict>(find(function, "arguments")->held()));
    CHECK(text(*find(message(variables, 2), "tool_call_id")) == "c1");
    CHECK(find(variables, "tools") == nullptr);
}

TEST_CASE("the thinking level becomes the template's variables") {
    ChatRequest request;
    request.messages = {say(Role::user, "u")};
    CHECK(find(template_variables(request, false), "enable_thinking") == nullptr);
    request.thinking = ThinkingLevel::off;
    CHECK(std::get<bool>(find(template_variables(request, false), "enable_thinking")->held()) ==
          false);
    request.thinking = ThinkingLevel::high;
    const TemplateDict high = template_variables(request, false);
    CHECK(std::get<bool>(find(high, "enable_thinking")->held()) == true);
    CHECK(text(*find(high, "reasoning_effort")) == "high");
}

TEST_CASE("template kwargs win over the level and cannot replace the messages") {
    ChatRequest request;
    request.messages = {say(Role::user, "u")};
    request.thinking = ThinkingLevel::high;
    request.template_variables = {{"enable_thinking", TemplateValue(false)},
                                  {"messages", TemplateValue(std::string("x"))},
                                  {"custom", TemplateValue(std::int64_t{5})}};
    const TemplateDict variables = template_variables(request, false);
    CHECK(std::get<bool>(find(variables, "enable_thinking")->held()) == false);
    CHECK(messages(variables) == 1);
    CHECK(std::get<std::int64_t>(find(variables, "custom")->held()) == 5);
}

TEST_CASE("a silent request gets the configuration's sampling") {
    RequestDefaults defaults;
    defaults.temperature = 0.7;
    defaults.top_k = 20;
    defaults.top_p = 0.8;
    const auto command = gen_command(ChatRequest{}, defaults, prompt_of(10), 90, 1234);
    CHECK(command.temperature == 0.7);
    CHECK(command.top_k == 20);
    CHECK(command.top_p == 0.8);
    CHECK(command.seed == 1234);
    CHECK(command.max_new == 90);
    CHECK(command.root == 3);
    CHECK(command.ids.size() == 10);
    CHECK(command.logprobs == 0);
    CHECK(command.penalty_last_n == 64);
}

TEST_CASE("what a request says wins and is fitted to the room") {
    ChatRequest request;
    request.sampling.temperature = 0;
    request.sampling.top_k = -1;
    request.sampling.seed = 9;
    request.max_tokens = 91;
    request.logprobs = true;
    request.thinking = ThinkingLevel::low;
    RequestDefaults defaults;
    defaults.temperature = 1;
    defaults.top_k = 5;
    auto command = gen_command(request, defaults, prompt_of(10), 90, 0);
    CHECK(command.temperature == 0);
    CHECK(command.top_k == 0);
    CHECK(command.seed == 9);
    CHECK(command.max_new == 90);
    CHECK(command.logprobs == 1);
    CHECK(command.think == "low");
    request.max_tokens = 89;
    request.top_logprobs = 20;
    command = gen_command(request, defaults, prompt_of(10), 90, 0);
    CHECK(command.max_new == 89);
    CHECK(command.logprobs == 20);
}

TEST_CASE("a nucleus of nothing is the most probable token") {
    ChatRequest request;
    request.sampling.top_p = 0;
    const auto command = gen_command(request, RequestDefaults{}, prompt_of(1), 1, 0);
    CHECK(command.top_p == 1);
    CHECK(command.top_k == 1);
}
