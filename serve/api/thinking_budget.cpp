// The arithmetic of both passes.
#include "serve/api/thinking_budget.hpp"

#include <algorithm>
#include <utility>

namespace strata::serve {

namespace {

// Templates write this many tokens at most behind a block of thinking that they close themselves.
constexpr std::size_t kPromptTailTokens = 4;

std::vector<TokenId> ids_of(const TextModel& text, const std::string& piece) {
    Result<std::vector<TokenId>> ids = text.encode(piece, ParseSpecial::yes, EdgeTokens::none);
    return ids ? std::move(*ids) : std::vector<TokenId>{};
}

ThinkingEnd thinking_end(const TextModel& text, bool line_ended) {
    // Models of this pair were trained on blocks of whole lines, the others on bare markers.
    const ThinkMarkers& markers = text.think();
    const bool lines = markers.open == "<think>";
    ThinkingEnd end;
    end.text = (lines && !line_ended ? "\n" : "") + markers.close + (lines ? "\n\n" : "");
    end.ids = ids_of(text, end.text);
    return end;
}

// The template was told not to think, and said so to the model.
bool closed_by_prompt(const TextModel& text, const std::vector<TokenId>& ids) {
    const TokenId close = text.tokenizer().special(text.think().close);
    const std::size_t from = ids.size() - std::min(ids.size(), kPromptTailTokens);
    return close >= 0 && std::find(ids.begin() + static_cast<std::ptrdiff_t>(from), ids.end(),
                                   close) != ids.end();
}

}  // namespace

std::int64_t thinking_cap(std::int64_t budget, std::int64_t total, std::int64_t room,
                          std::int64_t closing_tokens) {
    const std::int64_t reserve = std::min(kAnswerReserveTokens, (total + 1) / 2);
    const std::int64_t cap = std::min({budget, total - reserve, room - closing_tokens - reserve});
    return std::max<std::int64_t>(cap, 0);
}

std::optional<ThinkingBudget> begin_thinking_budget(std::optional<std::int64_t> budget,
                                                    const TextModel& text, std::int64_t n_ctx,
                                                    RenderedPrompt& prompt,
                                                    protocol::GenCommand& command) {
    if (!budget || text.think().close.empty() || command.max_new == 0) return std::nullopt;
    const bool begun = prompt.starts_in_thinking;
    if (!begun && closed_by_prompt(text, command.ids)) return std::nullopt;
    ThinkingBudget plan;
    plan.n_ctx = n_ctx;
    plan.in_line = thinking_end(text, false);
    plan.on_new_line = thinking_end(text, true);
    const auto closing = static_cast<std::int64_t>(plan.in_line.ids.size());
    const std::int64_t room = n_ctx - static_cast<std::int64_t>(command.ids.size());
    const std::int64_t cap = thinking_cap(*budget, command.max_new, room, closing);
    if (begun && cap == 0) {
        if (room <= closing) return std::nullopt;
        command.ids.insert(command.ids.end(), plan.in_line.ids.begin(), plan.in_line.ids.end());
        command.max_new = std::min(command.max_new, room - closing);
        prompt.starts_in_thinking = false;
        return std::nullopt;
    }
    // A model that begins by itself writes the marker first, which is no thinking.
    const auto marker =
        begun ? 0 : static_cast<std::int64_t>(ids_of(text, text.think().open).size());
    if (cap + marker >= command.max_new) return std::nullopt;
    plan.command = command;
    command.max_new = cap + marker;
    return plan;
}

std::optional<protocol::GenCommand> second_pass(const ThinkingBudget& budget,
                                                std::span<const TokenId> written,
                                                const ThinkingEnd* end) {
    protocol::GenCommand command = budget.command;
    command.ids.insert(command.ids.end(), written.begin(), written.end());
    if (end != nullptr) command.ids.insert(command.ids.end(), end->ids.begin(), end->ids.end());
    command.max_new = std::min(command.max_new - static_cast<std::int64_t>(written.size()),
                               budget.n_ctx - static_cast<std::int64_t>(command.ids.size()));
    if (command.max_new <= 0) return std::nullopt;
    // The same seed would draw the same numbers again.
    ++command.seed;
    return command;
}

}  // namespace strata::serve
