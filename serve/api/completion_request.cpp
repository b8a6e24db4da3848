// The prompt's forms, and what a text completion has of its own.
#include "serve/api/completion_request.hpp"

#include <utility>

#include "serve/api/json_reader.hpp"
#include "serve/api/openai_fields.hpp"
#include "serve/api/strata_fields.hpp"
#include "serve/api/token_ids.hpp"

namespace strata::serve {

namespace json = boost::json;

namespace {

constexpr std::string_view kPromptAllowed =
    "a text, a list of token ids, or a list of one of these";

bool is_number(const json::value& value) {
    return value.is_number();
}

void read_form(const json::value& value, const std::string& path, FieldReader& reader,
               RawPrompt& prompt) {
    if (value.is_string()) {
        prompt.text.assign(value.get_string().data(), value.get_string().size());
        return;
    }
    const json::array* const list = value.if_array();
    if (list != nullptr && list->empty()) {
        reader.fault().set(
            path, path + " is an empty list; allowed: a text, or a list of at least one token id",
            "invalid_value");
        return;
    }
    if (list != nullptr && is_number(list->front())) {
        prompt.ids = read_token_ids(*list, path, reader.fault());
        return;
    }
    reader.fault().set_value(path, value, kPromptAllowed);
}

RawPrompt read_prompt(FieldReader& reader) {
    RawPrompt prompt;
    const json::value* const found = reader.find("prompt");
    if (found == nullptr) {
        reader.missing("prompt", kPromptAllowed);
        return prompt;
    }
    const json::array* const list = found->if_array();
    const bool wrapped = list != nullptr && !list->empty() && !is_number(list->front());
    if (!wrapped) {
        read_form(*found, "prompt", reader, prompt);
    } else if (list->size() == 1) {
        read_form(list->front(), "prompt[0]", reader, prompt);
    } else {
        reader.fault().set("prompt",
                           "prompt has " + std::to_string(list->size()) +
                               " entries; allowed: one prompt in a request",
                           "unsupported_value");
    }
    prompt.add_special = reader.boolean("add_special_tokens").value_or(true);
    prompt.parse_special = reader.boolean("parse_special").value_or(true);
    return prompt;
}

// `logprobs` is the number of alternatives here.
void read_logprobs(FieldReader& reader, ChatRequest& request) {
    const json::value* const found = reader.find("logprobs");
    if (found != nullptr && found->is_bool() && !found->get_bool()) return;
    const std::optional<std::int64_t> top = reader.integer("logprobs", 0, kTopLogprobsAskedMax);
    request.logprobs = top.has_value();
    request.top_logprobs = top.value_or(0);
}

void check_unsupported(FieldReader& reader) {
    for (const std::string_view name : {"n", "best_of"}) {
        static_cast<void>(reader.integer(name, 1, 1));  // one answer is what there is
    }
    check_logit_bias(reader);
    if (reader.boolean("echo").value_or(false)) {
        refuse_field(reader, "echo", "the answer comes without its prompt");
    }
    if (!reader.text("suffix").value_or("").empty()) {
        refuse_field(reader, "suffix", "the model continues a text, it does not fill gaps");
    }
    for (const std::string_view name : {"grammar", "json_schema"}) {
        if (reader.find(name) != nullptr) {
            refuse_field(reader, name, "this server answers in free text");
        }
    }
}

}  // namespace

ApiResult<ChatRequest> parse_openai_completion(std::string_view body) {
    const ApiResult<JsonBody> parsed = JsonBody::parse(body);
    if (!parsed) return parsed.failure();
    FirstFault fault(body);
    FieldReader reader(parsed->object(), "", fault);
    ChatRequest request;
    request.model = reader.text("model").value_or("");
    request.raw = read_prompt(reader);
    read_shared_fields(reader, request);
    read_logprobs(reader, request);
    check_unsupported(reader);
    read_strata_fields(reader, request);
    if (fault.any()) return Failure{fault.error()};
    return request;
}

}  // namespace strata::serve
