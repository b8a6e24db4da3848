// What follows from vocabulary and template together: one BOS, the root of a prompt, open think
// blocks.
#include "serve/text/text_model.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace strata::serve {
namespace {

// Control tokens that begin a turn in the families that mark one. The engine knows the same list.
constexpr std::array<std::string_view, 4> kTurnOpen = {"<|im_start|>", "<|start_header_id|>",
                                                       "<start_of_turn>", "<|turn>"};
// Pairs under which released models think.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kThinkMarkers = {{
    {"<think>", "</think>"},
    {"[THINK]", "[/THINK]"},
    {"<seed:think>", "</seed:think>"},
}};
struct FileText {
    std::string_view variable;
    std::string_view key;
};
constexpr std::array<FileText, 4> kFileTexts = {{
    {"bos_token", "tokenizer.ggml.bos_token_id"},
    {"eos_token", "tokenizer.ggml.eos_token_id"},
    {"pad_token", "tokenizer.ggml.padding_token_id"},
    {"unk_token", "tokenizer.ggml.unknown_token_id"},
}};

ThinkMarkers find_markers(const Tokenizer& tokenizer, std::string_view source) {
    for (const auto& [open, close] : kThinkMarkers) {
        const bool in_vocabulary = tokenizer.special(open) >= 0 && tokenizer.special(close) >= 0;
        if (in_vocabulary || source.find(close) != std::string_view::npos) {
            return {std::string(open), std::string(close)};
        }
    }
    return {};
}

const std::string* role_of(const TemplateValue& message) {
    const auto* fields = std::get_if<TemplateDict>(&message.held());
    const TemplateValue* role = fields != nullptr ? find_value(*fields, "role") : nullptr;
    return role != nullptr ? std::get_if<std::string>(&role->held()) : nullptr;
}

bool is_system(const TemplateValue& message) {
    const std::string* role = role_of(message);
    return role != nullptr && (*role == "system" || *role == "developer");
}

bool has_root_text(const TemplateDict& variables) {
    const TemplateValue* messages = find_value(variables, "messages");
    const auto* list = messages != nullptr ? std::get_if<TemplateList>(&messages->held()) : nullptr;
    const TemplateValue* tools = find_value(variables, "tools");
    const auto* tool_list = tools != nullptr ? std::get_if<TemplateList>(&tools->held()) : nullptr;
    return (list != nullptr && !list->empty() && is_system(list->front())) ||
           (tool_list != nullptr && !tool_list->empty());
}

// The same request up to its system turns, then a first message that is certainly another.
TemplateDict probe_of(const TemplateDict& variables) {
    TemplateDict probe;
    for (const auto& [name, value] : variables) {
        const auto* messages = std::get_if<TemplateList>(&value.held());
        if (name != "messages" || messages == nullptr) {
            probe.emplace_back(name, value);
            continue;
        }
        TemplateList kept;
        for (const TemplateValue& message : *messages) {
            if (!is_system(message)) break;
            kept.push_back(message);
        }
        // No text of a client's first message ends in a space and this letter pair at the same
        // place by chance often enough to matter: a longer common part only moves the cut to the
        // same turn.
        kept.push_back(TemplateDict{{"role", "user"}, {"content", "\x01"}});
        probe.emplace_back(name, std::move(kept));
    }
    return probe;
}

}  // namespace

Result<TextModel> TextModel::load(const std::string& gguf_path, std::string template_source) {
    const auto header = gguf::read_header(gguf_path);
    if (!header) return header.failure();
    return from_header(*header, std::move(template_source));
}

Result<TextModel> TextModel::from_header(const gguf::Header& header, std::string template_source) {
    auto tokenizer = make_tokenizer(header);
    if (!tokenizer) return tokenizer.failure();
    TextModel model;
    model.tokenizer_ = std::move(*tokenizer);
    if (template_source.empty() && header.find("tokenizer.chat_template") != nullptr) {
        auto own = header.string_value("tokenizer.chat_template");
        if (!own) return own.failure();
        template_source = std::move(*own);
    }
    if (!template_source.empty()) {
        auto parsed = parse_chat_template(std::move(template_source));
        if (!parsed) return parsed.failure();
        model.template_ = std::move(*parsed);
    }
    for (const FileText& text : kFileTexts) {
        if (header.find(text.key) == nullptr) continue;
        const auto id = header.unsigned_value(text.key);
        if (!id) return id.failure();
        if (*id >= model.tokenizer_->size()) {
            return refuse(std::string(text.key) + " is " + std::to_string(*id) +
                          ", the vocabulary has " + std::to_string(model.tokenizer_->size()) +
                          " tokens");
        }
        const std::string_view bytes = model.tokenizer_->bytes(static_cast<TokenId>(*id));
        model.file_texts_.emplace_back(std::string(text.variable), std::string(bytes));
    }
    model.think_ = find_markers(*model.tokenizer_, model.template_source());
    for (const std::string_view text : kTurnOpen) {
        const TokenId id = model.tokenizer_->special(text);
        if (id >= 0) model.turn_open_ids_.push_back(id);
    }
    return model;
}

const std::string& TextModel::template_source() const {
    static const std::string kNone;
    return template_ ? template_->source() : kNone;
}

bool TextModel::template_reads(std::string_view variable) const {
    return template_ && template_->reads(variable);
}

Result<std::vector<PromptPiece>> TextModel::render(const TemplateDict& variables,
                                                   const TemplateLimits& limits) const {
    if (!template_) return refuse("the model file has no chat template");
    return template_->render(variables, file_texts_, limits);
}

Result<std::string> TextModel::render_text(const TemplateDict& variables,
                                           const TemplateLimits& limits) const {
    const auto pieces = render(variables, limits);
    if (!pieces) return pieces.failure();
    std::string text;
    for (const PromptPiece& piece : *pieces) text += piece.text;
    return text;
}

// Templates write the BOS themselves or leave it to the tokenizer: there is one in either case.
std::vector<TokenId> TextModel::encode_rendered(std::span<const PromptPiece> pieces) const {
    std::vector<TokenId> ids = tokenizer_->encode(pieces);
    const Tokenizer::EdgeRules edges = tokenizer_->edges();
    if (edges.add_bos && (ids.empty() || ids.front() != edges.bos))
        ids.insert(ids.begin(), edges.bos);
    return ids;
}

std::int64_t TextModel::root_of(const TemplateDict& variables, const TemplateLimits& limits,
                                std::span<const TokenId> ids) const {
    const auto pieces = render(probe_of(variables), limits);
    if (!pieces)
        return 0;  // the template refuses such a conversation: nothing is known to be shared
    const std::vector<TokenId> probe = encode_rendered(*pieces);
    const auto common =
        std::mismatch(ids.begin(), ids.end(), probe.begin(), probe.end()).first - ids.begin();
    const auto opens_turn = [this](TokenId id) {
        if (turn_open_ids_.empty()) return tokenizer_->kind(id) == TokenKind::control;
        return std::find(turn_open_ids_.begin(), turn_open_ids_.end(), id) != turn_open_ids_.end();
    };
    auto root = common;
    while (root > 0 && !opens_turn(ids[static_cast<std::size_t>(root - 1)])) --root;
    root = std::max<std::ptrdiff_t>(root - 1, 0);
    // Some templates write the system prompt into the first user turn. The last common token may
    // join with the text that follows, so it does not count.
    const bool folded = root <= 1 && has_root_text(variables);
    return folded ? std::max<std::ptrdiff_t>(root, common - 1) : root;
}

Result<RenderedPrompt> TextModel::render_prompt(const TemplateDict& variables,
                                                const TemplateLimits& limits) const {
    const auto pieces = render(variables, limits);
    if (!pieces) return pieces.failure();
    RenderedPrompt prompt;
    prompt.ids = encode_rendered(*pieces);
    prompt.root_tokens = root_of(variables, limits, prompt.ids);
    if (!think_.open.empty() && !pieces->empty() && !pieces->back().from_message) {
        const std::string& tail =
            pieces->back().text;  // the generation prompt is the template's own
        const std::size_t open = tail.rfind(think_.open);
        const std::size_t close = tail.rfind(think_.close);
        prompt.starts_in_thinking =
            open != std::string::npos && (close == std::string::npos || close < open);
    }
    return prompt;
}

Result<std::vector<TokenId>> TextModel::encode(std::string_view text, ParseSpecial special,
                                               EdgeTokens edges) const {
    if (text.size() > kTextBytesMax) {
        return refuse("the text has " + std::to_string(text.size()) + " bytes, allowed are " +
                      std::to_string(kTextBytesMax));
    }
    std::vector<TokenId> ids = tokenizer_->encode(text, special);
    const Tokenizer::EdgeRules rules = tokenizer_->edges();
    if (edges == EdgeTokens::none) return ids;
    if (rules.add_bos) ids.insert(ids.begin(), rules.bos);
    if (rules.add_eos) ids.push_back(rules.eos);
    return ids;
}

std::string TextModel::decode(std::span<const TokenId> ids) const {
    return tokenizer_->decode(ids);
}

StreamDecoder TextModel::decoder(const RenderedPrompt& prompt,
                                 std::vector<std::string> stop) const {
    return StreamDecoder({std::move(stop), think_.open, think_.close, prompt.starts_in_thinking});
}

}  // namespace strata::serve
