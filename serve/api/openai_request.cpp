// The fields of a chat completion request, one reader after another.
#include "serve/api/openai_request.hpp"

#include <array>
#include <limits>
#include <utility>

#include "serve/api/json_reader.hpp"
#include "serve/api/openai_messages.hpp"

namespace strata::serve {

namespace json = boost::json;

namespace {

constexpr std::int64_t kTokensMax =
    2'147'483'647;  // positions are 31 bits wide in the line protocol

// Both spellings of a field are known; the first that is given counts.
template <class Read>
auto either(std::string_view first, std::string_view second, Read read) -> decltype(read(first)) {
    auto value = read(first);
    auto other = read(second);
    return value ? value : other;
}

std::optional<std::uint64_t> read_seed(FieldReader& reader) {
    const json::value* const found = reader.find("seed");
    if (found != nullptr && found->is_uint64()) return found->get_uint64();
    const std::optional<std::int64_t> seed = reader.integer(
        "seed", std::numeric_limits<std::int64_t>::min(), std::numeric_limits<std::int64_t>::max());
    if (!seed || *seed == -1) return std::nullopt;  // -1: any, as other servers read it
    return static_cast<std::uint64_t>(*seed);
}

SamplingFields read_sampling(FieldReader& reader) {
    SamplingFields fields;
    const auto integer = [&](std::int64_t least) {
        return [&reader, least](std::string_view name) {
            return reader.integer(name, least, std::numeric_limits<std::int32_t>::max());
        };
    };
    fields.temperature = reader.number("temperature", {.least = 0, .most = 2});
    fields.top_p = reader.number("top_p", {.least = 0, .most = 1});
    fields.top_k = integer(-1)("top_k");
    fields.min_p = reader.number("min_p", {.least = 0, .most = 1});
    fields.repeat_penalty =
        either("repeat_penalty", "repetition_penalty", [&](std::string_view name) {
            return reader.number(name, {.least = 0, .most = 10, .above_least = true});
        });
    fields.frequency_penalty = reader.number("frequency_penalty", {.least = -2, .most = 2});
    fields.presence_penalty = reader.number("presence_penalty", {.least = -2, .most = 2});
    fields.penalty_last_n = either("penalty_last_n", "repeat_last_n", integer(0));
    fields.seed = read_seed(reader);
    fields.ignore_eos = reader.boolean("ignore_eos").value_or(false);
    return fields;
}

void add_stop(const json::value& value, const std::string& path, FirstFault& fault,
              std::vector<std::string>& stop) {
    const std::string allowed =
        "a string of 1 to " + std::to_string(kStopStringBytesMax) + " bytes";
    if (!value.is_string()) {
        fault.set(path, path + " is " + shown(value) + "; allowed: " + allowed, "invalid_type");
        return;
    }
    const std::size_t bytes = value.get_string().size();
    if (bytes == 0 || bytes > kStopStringBytesMax) {
        fault.set(path, path + " has " + std::to_string(bytes) + " bytes; allowed: " + allowed,
                  "invalid_value");
        return;
    }
    stop.emplace_back(value.get_string().data(), bytes);
}

std::vector<std::string> read_stop(FieldReader& reader) {
    std::vector<std::string> stop;
    const json::value* const found = reader.find("stop");
    if (found == nullptr) return stop;
    if (!found->is_array()) {
        add_stop(*found, "stop", reader.fault(), stop);
        return stop;
    }
    const json::array* const list = reader.array("stop", kStopStringsMax);
    for (std::size_t i = 0; list != nullptr && i < list->size(); ++i) {
        add_stop((*list)[i], "stop[" + std::to_string(i) + "]", reader.fault(), stop);
    }
    return stop;
}

std::optional<ThinkingLevel> level_of(std::string_view word) {
    constexpr std::array<std::pair<std::string_view, ThinkingLevel>, 7> kLevels = {{
        {"none", ThinkingLevel::off},
        {"minimal", ThinkingLevel::minimal},
        {"low", ThinkingLevel::low},
        {"medium", ThinkingLevel::medium},
        {"high", ThinkingLevel::high},
        {"xhigh", ThinkingLevel::xhigh},
        {"max", ThinkingLevel::xhigh},
    }};
    for (const auto& [name, level] : kLevels) {
        if (name == word) return level;
    }
    return std::nullopt;
}

ThinkingLevel read_thinking(FieldReader& reader) {
    ThinkingLevel level = ThinkingLevel::unset;
    if (const std::optional<bool> on = reader.boolean("enable_thinking")) {
        level = *on ? ThinkingLevel::on : ThinkingLevel::off;
    }
    const std::optional<std::string> effort = reader.text("reasoning_effort");
    if (!effort) return level;
    const std::optional<ThinkingLevel> known = level_of(*effort);
    if (!known) {
        reader.fault().set("reasoning_effort",
                           "reasoning_effort is " + shown(*reader.find("reasoning_effort")) +
                               "; allowed: none, minimal, low, medium, high, xhigh, max",
                           "invalid_value");
    }
    return known.value_or(level);
}

TemplateDict read_template_variables(FieldReader& reader) {
    TemplateDict variables;
    const json::object* const found = reader.object("chat_template_kwargs");
    if (found == nullptr) return variables;
    FieldReader inner(*found, "chat_template_kwargs", reader.fault());
    inner.boolean("enable_thinking");
    for (const auto& item : *found) {
        variables.emplace_back(std::string(item.key().data(), item.key().size()),
                               to_template_value(item.value()));
    }
    return variables;
}

std::optional<std::int64_t> read_max_tokens(FieldReader& reader) {
    return either("max_completion_tokens", "max_tokens",
                  [&](std::string_view name) { return reader.integer(name, 0, kTokensMax); });
}

void read_logprobs(FieldReader& reader, ChatRequest& request) {
    request.logprobs = reader.boolean("logprobs").value_or(false);
    const std::optional<std::int64_t> top = reader.integer("top_logprobs", 0, kTopLogprobsAskedMax);
    if (top && *top > 0 && !request.logprobs) {
        reader.fault().set("top_logprobs", "top_logprobs needs logprobs: true", "invalid_value");
    }
    request.top_logprobs = top.value_or(0);
}

void refuse(FieldReader& reader, std::string_view name, std::string_view why) {
    reader.fault().set(reader.path_of(name),
                       std::string(name) + " is not supported: " + std::string(why),
                       "unsupported_parameter");
}

void check_logit_bias(FieldReader& reader) {
    const json::value* const bias = reader.find("logit_bias");
    if (bias == nullptr) return;
    if (!bias->is_object() && !bias->is_array()) {
        reader.wrong_type("logit_bias", "an object of token ids, or a list of pairs");
        return;
    }
    const std::size_t entries =
        bias->is_object() ? bias->get_object().size() : bias->get_array().size();
    if (entries > kLogitBiasMax) {
        reader.fault().set("logit_bias",
                           "logit_bias has " + std::to_string(entries) +
                               " entries; allowed: at most " + std::to_string(kLogitBiasMax),
                           "invalid_value");
    } else if (entries > 0) {
        refuse(reader, "logit_bias", "the engine does not change single logits");
    }
}

void check_response_format(FieldReader& reader) {
    const json::object* const format = reader.object("response_format");
    if (format == nullptr) return;
    FieldReader inner(*format, "response_format", reader.fault());
    const std::optional<std::string> type = inner.text("type");
    if (!type) inner.missing("type", "\"text\"");
    if (type && *type != "text") {
        reader.fault().set("response_format.type",
                           "response_format.type is " + shown(*inner.find("type")) +
                               "; allowed: \"text\" (the engine does not constrain its answer)",
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
    reader.fault().set("tool_choice",
                       "tool_choice is " + shown(*choice) +
                           "; allowed: \"auto\" or \"none\" (the engine cannot force a call)",
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
    if (functions != nullptr && !functions->empty()) refuse(reader, "functions", "use tools");
    for (const std::string_view name : {"audio", "grammar", "json_schema"}) {
        if (reader.find(name) != nullptr) refuse(reader, name, "this server answers in free text");
    }
}

void read_stream_fields(FieldReader& reader, ChatRequest& request) {
    request.stream = reader.boolean("stream").value_or(false);
    const json::object* const options = reader.object("stream_options");
    if (options == nullptr) return;
    FieldReader inner(*options, "stream_options", reader.fault());
    request.include_usage = inner.boolean("include_usage").value_or(false);
}

}  // namespace

ApiResult<ChatRequest> parse_openai_chat(std::string_view body) {
    const ApiResult<JsonBody> parsed = JsonBody::parse(body);
    if (!parsed) return parsed.failure();
    FirstFault fault;
    FieldReader reader(parsed->object(), "", fault);
    ChatRequest request;
    request.model = reader.text("model").value_or("");
    request.messages = read_openai_messages(reader);
    read_stream_fields(reader, request);
    request.max_tokens = read_max_tokens(reader);
    request.sampling = read_sampling(reader);
    request.stop = read_stop(reader);
    read_logprobs(reader, request);
    check_unsupported(reader);
    request.tools = read_openai_tools(reader);
    if (!tools_wanted(reader)) request.tools.clear();
    request.thinking = read_thinking(reader);
    request.template_variables = read_template_variables(reader);
    if (fault.any()) return Failure{fault.error()};
    return request;
}

}  // namespace strata::serve
