// Messages as template values, and the numbers of a GEN command.
#include "serve/api/prompt.hpp"

#include <algorithm>
#include <limits>
#include <utility>

#include "serve/api/strata_fields.hpp"
#include "serve/api/token_ids.hpp"
#include "serve/text/template_raised.hpp"

namespace strata::serve {

namespace {

// What a template may write. Each bound is above what a prompt that fits can have, so that one
// which is merely too long is counted and refused with its number of tokens: a token of plain
// English is 5 bytes, one of a long word or of spaces up to 16; a template says what the client
// sent a few times at most.
constexpr std::size_t kOutputBytesPerToken = 16;
constexpr std::size_t kOutputBytesMin = 1U << 20U;
constexpr std::size_t kOutputPerInput = 8;

std::string_view role_word(Role role, bool knows_developer) {
    switch (role) {
        case Role::system:
            return "system";
        case Role::developer:
            return knows_developer ? "developer" : "system";
        case Role::user:
            return "user";
        case Role::assistant:
            return "assistant";
        case Role::tool:
            return "tool";
    }
    return "user";
}

TemplateValue text_value(std::string_view text) {
    return TemplateValue(std::string(text));
}

TemplateValue call_value(const ToolCall& call) {
    TemplateDict function;
    function.emplace_back("name", text_value(call.name));
    function.emplace_back("arguments", call.arguments);
    TemplateDict dict;
    dict.emplace_back("id", text_value(call.id));
    dict.emplace_back("type", text_value("function"));
    dict.emplace_back("function", TemplateValue(std::move(function)));
    return TemplateValue(std::move(dict));
}

TemplateValue message_value(const ChatMessage& message, bool knows_developer) {
    TemplateDict dict;
    dict.emplace_back("role", text_value(role_word(message.role, knows_developer)));
    dict.emplace_back("content", message.content ? text_value(*message.content) : TemplateValue());
    if (!message.name.empty()) dict.emplace_back("name", text_value(message.name));
    if (message.reasoning) dict.emplace_back("reasoning_content", text_value(*message.reasoning));
    if (!message.tool_calls.empty()) {
        TemplateList calls;
        for (const ToolCall& call : message.tool_calls) calls.push_back(call_value(call));
        dict.emplace_back("tool_calls", TemplateValue(std::move(calls)));
    }
    if (!message.tool_call_id.empty()) {
        dict.emplace_back("tool_call_id", text_value(message.tool_call_id));
    }
    return TemplateValue(std::move(dict));
}

bool is_system(const ChatMessage& message) {
    return message.role == Role::system || message.role == Role::developer;
}

TemplateList message_list(const std::vector<ChatMessage>& messages, bool knows_developer) {
    TemplateList list;
    list.reserve(messages.size());
    std::size_t leading = 0;
    while (leading < messages.size() && is_system(messages[leading])) ++leading;
    if (leading > 1) {
        ChatMessage joined = messages.front();
        for (std::size_t i = 1; i < leading; ++i) {
            joined.content =
                joined.content.value_or("") + "\n\n" + messages[i].content.value_or("");
        }
        list.push_back(message_value(joined, knows_developer));
    }
    for (std::size_t i = leading > 1 ? leading : 0; i < messages.size(); ++i) {
        list.push_back(message_value(messages[i], knows_developer));
    }
    return list;
}

void set_variable(TemplateDict& variables, const std::string& name, TemplateValue value) {
    const auto at = std::find_if(variables.begin(), variables.end(),
                                 [&](const auto& entry) { return entry.first == name; });
    if (at == variables.end()) {
        variables.emplace_back(name, std::move(value));
    } else {
        at->second = std::move(value);
    }
}

void add_thinking(TemplateDict& variables, ThinkingLevel level) {
    if (level == ThinkingLevel::unset) return;
    set_variable(variables, "enable_thinking", TemplateValue(level != ThinkingLevel::off));
    if (level != ThinkingLevel::off && level != ThinkingLevel::on) {
        set_variable(variables, "reasoning_effort", text_value(word(level)));
    }
}

ApiError bad_prompt(std::string param, std::string message) {
    ApiError error;
    error.param = std::move(param);
    error.code = "invalid_value";
    error.message = std::move(message);
    return error;
}

ApiResult<RenderedPrompt> raw_prompt(const RawPrompt& raw, const TextModel& text) {
    RenderedPrompt prompt;
    if (raw.ids) {
        ApiResult<std::vector<TokenId>> ids = checked_ids(*raw.ids, text);
        if (!ids) return ids.failure();
        prompt.ids = std::move(*ids);
    } else {
        Result<std::vector<TokenId>> ids = encode_raw(raw, text);
        if (!ids) return Failure{bad_prompt("prompt", "prompt: " + ids.error().text)};
        prompt.ids = std::move(*ids);
    }
    if (prompt.ids.empty()) {
        return Failure{bad_prompt("prompt", "prompt is empty; allowed: at least one token")};
    }
    return prompt;
}

ApiResult<RenderedPrompt> chat_prompt(const ChatRequest& request, const TextModel& text,
                                      const TemplateLimits& limits) {
    Result<RenderedPrompt> rendered =
        text.render_prompt(template_variables(request, knows_developer(text)), limits);
    if (!rendered) return Failure{template_error(rendered.error())};
    return std::move(*rendered);
}

// Tokens of the prompt that the first `pin_messages` messages are: as far as a prompt of them alone
// goes the same way. Another template says by itself what stands between two messages.
ApiResult<std::int64_t> pinned_tokens(const ChatRequest& request, const TextModel& text,
                                      const TemplateLimits& limits,
                                      const std::vector<TokenId>& prompt) {
    ChatRequest head = request;
    head.messages.resize(static_cast<std::size_t>(request.pin_messages));
    TemplateDict variables = template_variables(head, knows_developer(text));
    set_variable(variables, "add_generation_prompt", TemplateValue(false));
    const Result<RenderedPrompt> rendered = text.render_prompt(variables, limits);
    if (!rendered) {
        return Failure{bad_prompt(
            "strata.pin_messages",
            "strata.pin_messages is " + std::to_string(request.pin_messages) +
                "; the template refuses so many messages alone: " + rendered.error().text)};
    }
    const auto parted =
        std::mismatch(prompt.begin(), prompt.end(), rendered->ids.begin(), rendered->ids.end());
    const std::int64_t same = parted.first - prompt.begin();
    // At least one token is always left to read.
    return std::min(same, static_cast<std::int64_t>(prompt.size()) - 1);
}

std::int32_t clamped(std::int64_t value) {
    return static_cast<std::int32_t>(std::min<std::int64_t>(
        std::max<std::int64_t>(value, 0), std::numeric_limits<std::int32_t>::max()));
}

}  // namespace

Result<std::vector<TokenId>> encode_raw(const RawPrompt& raw, const TextModel& text) {
    return text.encode(raw.text, raw.parse_special ? ParseSpecial::yes : ParseSpecial::no,
                       raw.add_special ? EdgeTokens::by_file : EdgeTokens::none);
}

std::string_view word(ThinkingLevel level) {
    switch (level) {
        case ThinkingLevel::unset:
            return "";
        case ThinkingLevel::off:
            return "none";
        case ThinkingLevel::on:
            return "on";
        case ThinkingLevel::minimal:
            return "minimal";
        case ThinkingLevel::low:
            return "low";
        case ThinkingLevel::medium:
            return "medium";
        case ThinkingLevel::high:
            return "high";
        case ThinkingLevel::xhigh:
            return "xhigh";
    }
    return "";
}

TemplateDict template_variables(const ChatRequest& request, bool knows_developer) {
    TemplateDict variables;
    variables.emplace_back("messages",
                           TemplateValue(message_list(request.messages, knows_developer)));
    if (!request.tools.empty()) variables.emplace_back("tools", TemplateValue(request.tools));
    variables.emplace_back("add_generation_prompt", TemplateValue(true));
    add_thinking(variables, request.thinking);
    for (const auto& [name, value] : request.template_variables) {
        if (name != "messages" && name != "tools") set_variable(variables, name, value);
    }
    return variables;
}

protocol::GenCommand gen_command(const ChatRequest& request, const RequestDefaults& defaults,
                                 const RenderedPrompt& prompt, std::int64_t room,
                                 std::uint64_t any_seed) {
    const SamplingFields& asked = request.sampling;
    protocol::GenCommand command;
    std::int64_t wanted = room;
    if (request.max_tokens) {
        wanted = *request.max_tokens;
    } else if (defaults.max_tokens) {
        wanted = *defaults.max_tokens;
    }
    command.max_new = std::min(wanted, room);
    command.temperature = asked.temperature.value_or(defaults.temperature);
    command.top_p = asked.top_p.value_or(defaults.top_p);
    command.top_k = clamped(asked.top_k.value_or(defaults.top_k));
    if (command.top_p <= 0) {  // the engine's range is open at 0: the smallest nucleus is one token
        command.top_p = 1;
        command.top_k = 1;
    }
    command.min_p = asked.min_p.value_or(defaults.min_p);
    command.repeat_penalty = asked.repeat_penalty.value_or(defaults.repeat_penalty);
    command.frequency_penalty = asked.frequency_penalty.value_or(command.frequency_penalty);
    command.presence_penalty = asked.presence_penalty.value_or(command.presence_penalty);
    command.penalty_last_n = clamped(asked.penalty_last_n.value_or(command.penalty_last_n));
    command.seed = asked.seed.value_or(any_seed);
    command.ignore_eos = asked.ignore_eos;
    command.root = prompt.root_tokens;
    command.think = std::string(word(request.thinking));
    command.ckpt = request.checkpoint;
    command.steer = request.steering;
    if (request.logprobs) command.logprobs = std::max(1, clamped(request.top_logprobs));
    command.ids = prompt.ids;
    return command;
}

TemplateLimits template_limits(const ApiSettings& settings, std::size_t body_bytes,
                               std::int64_t n_ctx) {
    TemplateLimits limits;
    limits.output_bytes_max = std::max({static_cast<std::size_t>(n_ctx) * kOutputBytesPerToken,
                                        kOutputBytesMin, body_bytes * kOutputPerInput});
    limits.date = settings.template_date;
    return limits;
}

bool knows_developer(const TextModel& text) {
    return text.template_source().find("developer") != std::string::npos;
}

// A template that fails by itself says where; no field of the request is named for it.
ApiError template_error(const Refusal& refusal) {
    ApiError error;
    const bool raised = refusal.text.find(kTemplateRaised) != std::string::npos;
    error.message = refusal.text;
    if (raised) error.param = "messages";
    error.code = raised ? "template_refused" : "template_failed";
    return error;
}

ApiResult<PreparedChat> prepare_chat(ChatRequest request, const TextModel& text,
                                     const ApiSettings& settings, std::size_t body_bytes,
                                     std::int64_t n_ctx, std::uint64_t any_seed) {
    const std::optional<std::int64_t> budget =
        request.thinking_budget ? request.thinking_budget : settings.defaults.thinking_budget;
    if (budget == 0) request.thinking = ThinkingLevel::off;
    if (auto refusal = steering_refusal(request, settings.steering_names))
        return Failure{std::move(*refusal)};
    ApiResult<RenderedPrompt> rendered =
        request.raw ? raw_prompt(*request.raw, text)
                    : chat_prompt(request, text, template_limits(settings, body_bytes, n_ctx));
    if (!rendered) return rendered.failure();
    PreparedChat prepared;
    prepared.prompt_tokens = static_cast<std::int64_t>(rendered->ids.size());
    if (prepared.prompt_tokens >= n_ctx) {
        ApiError error;
        error.kind = ErrorKind::context_exceeded;
        error.code = "context_length_exceeded";
        error.param = request.raw ? "prompt" : "messages";
        error.n_prompt_tokens = prepared.prompt_tokens;
        error.n_ctx = n_ctx;
        error.message = "the prompt takes " + std::to_string(prepared.prompt_tokens) +
                        " tokens and the context holds " + std::to_string(n_ctx) +
                        ", of which the answer needs at least one";
        return Failure{std::move(error)};
    }
    prepared.command = gen_command(request, settings.defaults, *rendered,
                                   n_ctx - prepared.prompt_tokens, any_seed);
    if (request.pin_messages > 0) {
        const ApiResult<std::int64_t> pin = pinned_tokens(
            request, text, template_limits(settings, body_bytes, n_ctx), rendered->ids);
        if (!pin) return pin.failure();
        prepared.command.pin = *pin;
    }
    rendered->ids.clear();
    if (!request.raw) {
        prepared.budget = begin_thinking_budget(budget, text, n_ctx, *rendered, prepared.command);
        prepared.prompt_tokens = static_cast<std::int64_t>(prepared.command.ids.size());
    }
    prepared.prompt = std::move(*rendered);
    prepared.request = std::move(request);
    return prepared;
}

}  // namespace strata::serve
