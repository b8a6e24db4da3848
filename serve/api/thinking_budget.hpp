// A cap on thinking, in two passes of the engine. The first pass may write as many tokens as the
// model may think; what it left unfinished the second goes on with: the same prompt, all that was
// written, and, when the model still thinks, the end of its thinking. So the second prompt begins
// with what the engine holds, and only its last tokens are read.
//
// Rules, for a request that may write `total` tokens:
//  1. The model thinks at most cap = min(budget, total - reserve, room - closing - reserve) tokens,
//     with reserve = the smaller of kAnswerReserveTokens and half of `total`: an answer is never
//     thought away.
//  2. cap 0 and a prompt that begins the thinking: the prompt ends it at once, one pass is enough.
//  3. Thinking that ends by itself is not touched: the second pass goes on with the answer.
//  4. Both passes together write at most `total` tokens.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "protocol/gen_command.hpp"
#include "serve/api/chat_request.hpp"
#include "serve/text/text_model.hpp"

namespace strata::serve {

// A page of text: what people expect of an answer to a question that was thought about.
inline constexpr std::int64_t kAnswerReserveTokens = 512;

// Rule 1; never below 0.
std::int64_t thinking_cap(std::int64_t budget, std::int64_t total, std::int64_t room,
                          std::int64_t closing_tokens);

// What ends a block of thinking.
struct ThinkingEnd {
    std::string text;
    std::vector<TokenId> ids;
};

struct ThinkingBudget {
    protocol::GenCommand command;  // as it would be without a budget: the prompt, max_new = total
    std::int64_t n_ctx = 0;        // tokens
    ThinkingEnd in_line;           // behind a line that goes on
    ThinkingEnd on_new_line;

    const ThinkingEnd& end_after(bool line_ended) const {
        return line_ended ? on_new_line : in_line;
    }
};

// Shortens `command` to the first pass; or, by rule 2, gives it and `prompt` the end of the
// thinking. None: one pass is all there is (no budget, a model or a prompt without thinking ...).
std::optional<ThinkingBudget> begin_thinking_budget(std::optional<std::int64_t> budget,
                                                    const TextModel& text, std::int64_t n_ctx,
                                                    RenderedPrompt& prompt,
                                                    protocol::GenCommand& command);

// The second pass after `written`, and `end` when it is not null. None: nothing may be written any
// more.
std::optional<protocol::GenCommand> second_pass(const ThinkingBudget& budget,
                                                std::span<const TokenId> written,
                                                const ThinkingEnd* end);

}  // namespace strata::serve
