// The fields of a chat completion request, one reader after another.
#include "serve/api/openai_request.hpp"

#include <utility>

#include "serve/api/json_reader.hpp"
#include "serve/api/openai_fields.hpp"
#include "serve/api/openai_messages.hpp"
#include "serve/api/strata_fields.hpp"
#include "serve/api/thinking_fields.hpp"

namespace strata::serve {

namespace json = boost::json;

namespace {

TemplateDict read_template_variables(FieldReader& reader) {
    TemplateDict variables;
    const json::object* const found = reader.object("chat_template_kwargs");
    if (found == nullptr) return variables;
    for (const auto& item : *found) {
        variables.emplace_back(std::string(item.key().data(), item.key().size()),
                               to_template_value(item.value()));
    }
    return variables;
}

void read_logprobs(FieldReader& reader, ChatRequest& request) {
    request.logprobs = reader.boolean("logprobs").value_or(false);
    const std::optional<std::int64_t> top = reader.integer("top_logprobs", 0, kTopLogprobsAskedMax);
    if (top && *top > 0 && !request.logprobs) {
        reader.fault().set("top_logprobs", "top_logprobs needs logprobs: true", "invalid_value");
    }
    request.top_logprobs = top.value_or(0);
}

void check_response_format(FieldReader& reader) {
    const json::object* const format = reader.object("response_format");
    if (format == nullptr) return;
    FieldReader inner(*format, "response_format", reader.fault());
    const std::optional<std::string> type = inner.text("type");
    if (!type) inner.missing("type", "\"text\"");
    if (type && *type != "text") {
        reader.fault().set_value("response_format.type", *inner.find("type"),
                                 "\"text\" (the engine does not constrain its answer)",
                                 "unsupported_value");
    }
}

// auto and none are honoured; a forced call would need a constrained answer.
bool tools_wanted(FieldReader& reader) {
    const json::value* const choice = reader.find("tool_choice");
    if (choice == nullptr) return true;
    if (choice->is_string() && choice->get_string() == "auto") return true;
    if (choice->is_string() && choice->get_string() == "none") return false;
    if (!choice->is_string() && !choice->is_object()) {
        reader.wrong_type("tool_choice", "\"auto\" or \"none\"");
        return true;
    }
    reader.fault().set_value("tool_choice", *choice,
                             "\"auto\" or \"none\" (the engine cannot force a call)",
                             "unsupported_value");
    return true;
}

void check_unsupported(FieldReader& reader) {
    const std::optional<std::int64_t> n = reader.integer("n", 1, 1);
    static_cast<void>(n);  // one answer is what there is
    check_logit_bias(reader);
    check_response_format(reader);
    reader.boolean("parallel_tool_calls");
    const json::array* const functions = reader.array("functions", kToolsMax);
    if (functions != nullptr && !functions->empty()) refuse_field(reader, "functions", "use tools");
    for (const std::string_view name : {"audio", "grammar", "json_schema"}) {
        if (reader.find(name) != nullptr)
            refuse_field(reader, name, "this server answers in free text");
    }
}

}  // namespace

ApiResult<ChatRequest> parse_openai_chat(std::string_view body) {
    const ApiResult<JsonBody> parsed = JsonBody::parse(body);
    if (!parsed) return parsed.failure();
    FirstFault fault(body);
    FieldReader reader(parsed->object(), "", fault);
    ChatRequest request;
    request.model = reader.text("model").value_or("");
    request.messages = read_openai_messages(reader);
    read_shared_fields(reader, request);
    read_logprobs(reader, request);
    check_unsupported(reader);
    request.tools = read_openai_tools(reader);
    if (!tools_wanted(reader)) request.tools.clear();
    request.template_variables = read_template_variables(reader);
    request.thinking = read_thinking(reader);
    request.thinking_budget = read_thinking_budget(reader);
    read_strata_fields(reader, request);
    if (fault.any()) return Failure{fault.error()};
    return request;
}

}  // namespace strata::serve
