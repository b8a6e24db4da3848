// Any bytes as a chat template: parsing and running end within their limits, and no letter of a
// message comes out as the template's own.
#include <cstdint>
#include <cstdlib>
#include <string>

#include "serve/text/chat_template.hpp"

namespace {

// Three letters of a script that no template of the corpus uses, in UTF-8.
constexpr const char* kForeign = "\xEE\x80\x80\xEE\x80\x81 \xEE\x80\x82";

strata::serve::TemplateDict context() {
    using strata::serve::TemplateDict;
    using strata::serve::TemplateList;
    const TemplateDict function = {{"name", kForeign},
                                   {"arguments", TemplateDict{{"k", kForeign}, {"n", 1.5}}}};
    return {
        {"messages",
         TemplateList{
             TemplateDict{{"role", "user"}, {"content", kForeign}},
             TemplateDict{{"role", "assistant"},
                          {"content", {}},
                          {"tool_calls", TemplateList{TemplateDict{{"function", function}}}}}}},
        {"tools", TemplateList{function}},
        {"s", kForeign},
        {"l", TemplateList{1, 2, kForeign, true}},
        {"d", TemplateDict{{kForeign, 1}, {"x", kForeign}}},
        {"x", 5},
        {"add_generation_prompt", true},
    };
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static const strata::serve::TemplateDict kContext = context();
    const std::string source(reinterpret_cast<const char*>(bytes), size);
    const auto parsed = strata::serve::parse_chat_template(source);
    if (!parsed) return 0;
    strata::serve::TemplateLimits limits;
    limits.steps_max = 100'000;
    limits.depth_max = 50;
    limits.output_bytes_max = 1U << 16U;
    limits.date = "2024-02-29";
    const auto pieces = (*parsed)->render(kContext, limits);
    if (!pieces || source.find('\xEE') != std::string::npos) return 0;
    // A template can make the letter itself, from an escape or a code point.
    if (source.find('\\') != std::string::npos || source.find('%') != source.rfind('%')) return 0;
    for (const auto& piece : *pieces) {
        if (!piece.from_message && piece.text.find("\xEE\x80") != std::string::npos) std::abort();
    }
    return 0;
}
