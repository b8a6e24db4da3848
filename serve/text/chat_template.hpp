// The chat template of a model file: a bounded interpreter of the Jinja subset that real templates
// need.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "serve/text/template_value.hpp"
#include "serve/text/tokenizer.hpp"
#include "strata/core/result.hpp"

namespace strata::serve {

struct TemplateLimits {
    std::uint64_t steps_max = 10'000'000;
    int depth_max = 200;
    std::size_t output_bytes_max = 1U << 20;
    std::string date;  // YYYY-MM-DD, fixed answer of strftime_now (at midnight); "" = now
};

class ChatTemplate {
  public:
    virtual ~ChatTemplate() = default;
    // Renders with the variables of `context` (messages, tools, add_generation_prompt, ...), all of
    // them a client's, and with `file_texts` (bos_token, ...), which are the model file's own and
    // win over variables of the same name. Every text of the context is a message's; the result's
    // pieces keep that mark through every operation. A refusal names line, column and construct,
    // and says what the template raised or which limit it met.
    virtual Result<std::vector<PromptPiece>> render(const TemplateDict& context,
                                                    const TemplateDict& file_texts,
                                                    const TemplateLimits& limits) const = 0;
    Result<std::vector<PromptPiece>> render(const TemplateDict& context,
                                            const TemplateLimits& limits) const {
        return render(context, {}, limits);
    }
    virtual const std::string& source() const = 0;
    // Whether the template reads a variable of this name anywhere.
    virtual bool reads(std::string_view variable) const = 0;
};

// Parses; a refusal names line and column.
Result<std::unique_ptr<ChatTemplate>> parse_chat_template(std::string source);

}  // namespace strata::serve
