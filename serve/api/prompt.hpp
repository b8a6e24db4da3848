// From a checked ChatRequest to the engine's command: template variables, rendered prompt (or a raw
// one as it is), tokens,
// sampling with the configuration's defaults, max_tokens fitted to the room left. Pure: runs on a
// worker thread.
#pragma once

#include <cstdint>
#include <optional>

#include "protocol/gen_command.hpp"
#include "serve/api/api_error.hpp"
#include "serve/api/chat_request.hpp"
#include "serve/api/settings.hpp"
#include "serve/api/thinking_budget.hpp"
#include "serve/text/text_model.hpp"

namespace strata::serve {

// messages, tools, add_generation_prompt, the thinking level's variables, then chat_template_kwargs
// (which win). `knows_developer`: the template has a developer role of its own; else such a message
// is a system message. Leading system messages become one: templates allow one, clients send
// several.
TemplateDict template_variables(const ChatRequest& request, bool knows_developer);

// Sampling, limits and ids. `room` = tokens left in the context, > 0;
// `any_seed` is the seed of a request that names none.
protocol::GenCommand gen_command(const ChatRequest& request, const RequestDefaults& defaults,
                                 const RenderedPrompt& prompt, std::int64_t room,
                                 std::uint64_t any_seed);

// What a template may cost for a body of this size.
TemplateLimits template_limits(const ApiSettings& settings, std::size_t body_bytes,
                               std::int64_t n_ctx);
bool knows_developer(const TextModel& text);
ApiError template_error(const Refusal& refusal);

Result<std::vector<TokenId>> encode_raw(const RawPrompt& raw, const TextModel& text);

struct PreparedChat {
    ChatRequest request;
    RenderedPrompt prompt;         // its ids have moved into the command
    protocol::GenCommand command;  // of the first pass, when there is a budget
    std::int64_t prompt_tokens = 0;
    std::optional<ThinkingBudget> budget;  // when there may be a second pass
};

// Refuses a prompt that the template refuses (400) and one that does not fit n_ctx (both numbers).
// `body_bytes`: what the client sent.
ApiResult<PreparedChat> prepare_chat(ChatRequest request, const TextModel& text,
                                     const ApiSettings& settings, std::size_t body_bytes,
                                     std::int64_t n_ctx, std::uint64_t any_seed);

// The word of a level; "" for unset.
std::string_view word(ThinkingLevel level);

}  // namespace strata::serve
