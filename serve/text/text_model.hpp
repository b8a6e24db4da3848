// What the server knows of a model's text side: vocabulary, chat template, think markers and the
// first prompt decisions that follow from them. One value per model file, immutable, shared by all
// requests. It does not know requests, JSON or sampling.
//
// A prompt is rendered, then tokenised as one text. Of its ids two things are said:
//  1. root_tokens: where the system prompt and the tools end (GEN's `root=`). It is the position of
//     the last turn-open token up to which this prompt and one with the same system turns and tools
//     but another first message are equal, 0 when that is the prompt's first turn. Where a template
//     writes the system prompt into the first user turn it is the end of what both share.
//  2. starts_in_thinking: the generation prompt left a think block open.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/gguf/gguf.hpp"
#include "serve/text/chat_template.hpp"
#include "serve/text/stream_decoder.hpp"
#include "serve/text/template_value.hpp"
#include "serve/text/tokenizer.hpp"
#include "strata/core/result.hpp"

namespace strata::serve {

// One raw text; no body of a request is larger.
inline constexpr std::size_t kTextBytesMax = std::size_t{64} << 20U;

// Whether a raw text gets the BOS and EOS that the file's rules ask for.
enum class EdgeTokens : std::uint8_t { none, by_file };

// Both empty: neither template nor vocabulary knows thinking.
struct ThinkMarkers {
    std::string open;
    std::string close;
};

struct RenderedPrompt {
    std::vector<TokenId> ids;
    std::int64_t root_tokens = 0;
    bool starts_in_thinking = false;
};

class TextModel {
  public:
    // Reads vocabulary and template from the header of a GGUF file. `template_source` replaces the
    // file's own template unless empty. Refuses what make_tokenizer and parse_chat_template refuse;
    // a file without a template loads (raw completions work) and refuses only render calls.
    static Result<TextModel> load(const std::string& gguf_path, std::string template_source = {});
    static Result<TextModel> from_header(const gguf::Header& header,
                                         std::string template_source = {});

    // `variables`: messages, tools, add_generation_prompt, enable_thinking, ... as the template
    // names them. bos_token, eos_token and the like are the file's own: entries of those names are
    // replaced.
    Result<RenderedPrompt> render_prompt(const TemplateDict& variables,
                                         const TemplateLimits& limits) const;
    // The text alone, for /apply-template.
    Result<std::string> render_text(const TemplateDict& variables,
                                    const TemplateLimits& limits) const;
    // Raw text (completions, /tokenize). Refuses more than kTextBytesMax.
    Result<std::vector<TokenId>> encode(std::string_view text, ParseSpecial special,
                                        EdgeTokens edges) const;
    // The text of all ids, control tokens as their text (Tokenizer::decode).
    std::string decode(std::span<const TokenId> ids) const;

    // The decoder for the answer to `prompt`.
    StreamDecoder decoder(const RenderedPrompt& prompt, std::vector<std::string> stop) const;

    const Tokenizer& tokenizer() const { return *tokenizer_; }
    bool has_template() const { return template_ != nullptr; }
    const std::string& template_source() const;  // "" without a template
    const ThinkMarkers& think() const { return think_; }
    // Whether the template reads a variable of this name (enable_thinking, reasoning_effort, tools,
    // ...).
    bool template_reads(std::string_view variable) const;

  private:
    TextModel() = default;
    Result<std::vector<PromptPiece>> render(const TemplateDict& variables,
                                            const TemplateLimits& limits) const;
    std::vector<TokenId> encode_rendered(std::span<const PromptPiece> pieces) const;
    std::int64_t root_of(const TemplateDict& variables, const TemplateLimits& limits,
                         std::span<const TokenId> ids) const;

    std::shared_ptr<const Tokenizer> tokenizer_;
    std::shared_ptr<const ChatTemplate> template_;
    ThinkMarkers think_;
    TemplateDict file_texts_;             // bos_token, eos_token, ... of the file
    std::vector<TokenId> turn_open_ids_;  // the control tokens that begin a turn
};

}  // namespace strata::serve
