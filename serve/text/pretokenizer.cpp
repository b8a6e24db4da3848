// Names, patterns and which scanner is whose.
#include "serve/text/pretokenizer.hpp"

#include <algorithm>
#include <array>

#include "serve/text/words/scanners.hpp"

namespace strata::serve {
namespace {

struct Name {
    std::string_view name;
    PreTokenizer kind;
};
// Names of one pattern under which released files carry it.
constexpr std::array<Name, 27> kNames = {{
    {"gpt-2", PreTokenizer::gpt2},
    {"olmo", PreTokenizer::gpt2},
    {"smollm", PreTokenizer::gpt2_digits},
    {"starcoder", PreTokenizer::gpt2_digits},
    {"refact", PreTokenizer::gpt2_digits},
    {"command-r", PreTokenizer::gpt2_digits},
    {"llama-bpe", PreTokenizer::llama3},
    {"llama3", PreTokenizer::llama3},
    {"llama-v3", PreTokenizer::llama3},
    {"falcon3", PreTokenizer::llama3},
    {"pixtral", PreTokenizer::llama3},
    {"qwen2", PreTokenizer::qwen2},
    {"deepseek-r1-qwen", PreTokenizer::qwen2},
    {"megrez", PreTokenizer::qwen2},
    {"stablelm2", PreTokenizer::qwen2},
    {"hunyuan", PreTokenizer::qwen2},
    {"qwen35", PreTokenizer::qwen35},
    {"gpt-4o", PreTokenizer::o200k},
    {"o200k", PreTokenizer::o200k},
    {"llama4", PreTokenizer::o200k},
    {"kanana2", PreTokenizer::o200k},
    {"tekken", PreTokenizer::tekken},
    {"deepseek-v3", PreTokenizer::deepseek_v3},
    {"hunyuan-dense", PreTokenizer::deepseek_v3},
    {"joyai-llm", PreTokenizer::deepseek_v3},
    {"deepseek-coder", PreTokenizer::deepseek_coder},
    {"deepseek-llm", PreTokenizer::deepseek_llm},
}};

using Pattern = std::string_view;
constexpr Pattern kGpt2 =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr std::array<Pattern, 1> kGpt2Patterns = {kGpt2};
constexpr std::array<Pattern, 2> kGpt2DigitsPatterns = {R"(\p{N})", kGpt2};
constexpr std::array<Pattern, 1> kLlama3Patterns = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::array<Pattern, 1> kQwen2Patterns = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::array<Pattern, 1> kQwen35Patterns = {
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
    R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::array<Pattern, 1> kO200kPatterns = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*)"
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::array<Pattern, 1> kTekkenPatterns = {
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+)"
    R"(|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N})"
    R"(| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr std::array<Pattern, 3> kDeepseekV3Patterns = {
    R"(\p{N}{1,3})", R"([\x{4E00}-\x{9FA5}\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+)",
    R"([!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+)"
    R"(| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"};
constexpr Pattern kWidePattern = R"([\x{4E00}-\x{9FA5}\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+)";
constexpr std::array<Pattern, 5> kDeepseekCoderPatterns = {
    R"([\r\n])", R"(\s?\p{L}+)", R"(\s?\p{P}+)", kWidePattern, R"(\p{N})"};
constexpr std::array<Pattern, 6> kDeepseekLlmPatterns = {
    R"([\r\n])",
    R"(\s?[)"
    R"(\x{41}-\x{5A}\x{61}-\x{7A}\x{B5}\x{C0}-\x{D6}\x{D8}-\x{F6}\x{F8}-\x{1BA})"
    R"(\x{1BC}-\x{1BF}\x{1C4}-\x{293}\x{295}-\x{2AF}\x{370}-\x{373}\x{376}\x{377})"
    R"(\x{37B}-\x{37D}\x{37F}\x{386}\x{388}-\x{38A}\x{38C}\x{38E}-\x{3A1})"
    R"(\x{3A3}-\x{3F5}\x{3F7}-\x{481}\x{48A}-\x{52F}\x{531}-\x{556}\x{10A0}-\x{10C5})"
    R"(\x{13A0}-\x{13F5}\x{13F8}-\x{13FD}\x{1C90}-\x{1CBA}\x{1CBD}-\x{1CBF})"
    R"(\x{1D00}-\x{1D2B}\x{1D6B}-\x{1D77}\x{1D79}-\x{1D9A}\x{1E00}-\x{1F15})"
    R"(\x{1F18}-\x{1F1D}\x{1F20}-\x{1F45}\x{1F48}-\x{1F4D}\x{1F50}-\x{1F57}\x{1F59})"
    R"(\x{1F5B}\x{1F5D}\x{1F5F}-\x{1F7D}\x{1F80}-\x{1FB4}\x{1FB6}-\x{1FBC}\x{1FBE})"
    R"(\x{1FC2}-\x{1FC4}\x{1FC6}-\x{1FCC}\x{1FD0}-\x{1FD3}\x{1FD6}-\x{1FDB})"
    R"(\x{1FE0}-\x{1FEC}\x{1FF2}-\x{1FF4}\x{1FF6}-\x{1FFC}\x{2102}\x{2107})"
    R"(\x{210A}-\x{2113}\x{2115}\x{2119}-\x{211D}\x{2124}\x{2126}\x{2128})"
    R"(\x{212A}-\x{212D}\x{212F}-\x{2134}\x{2139}\x{213C}-\x{213F}\x{2145}-\x{2149})"
    R"(\x{214E}\x{2183}\x{2184}\x{2C00}-\x{2C7B}\x{2C7E}-\x{2CE4}\x{2CEB}-\x{2CEE})"
    R"(\x{2CF2}\x{2CF3}\x{A640}-\x{A66D}\x{A680}-\x{A69B}\x{A722}-\x{A76F})"
    R"(\x{A771}-\x{A787}\x{A78B}-\x{A78E}\x{AB70}-\x{ABBF}\x{FB00}-\x{FB06})"
    R"(\x{FB13}-\x{FB17}\x{FF21}-\x{FF3A}\x{FF41}-\x{FF5A}\x{10400}-\x{1044F})"
    R"(\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2})"
    R"(\x{118A0}-\x{118DF}\x{1E900}-\x{1E943})"
    R"(]+)",
    R"(\s?[!-/:-~\x{FF01}-\x{FF0F}\x{FF1A}-\x{FF5E}\x{2018}-\x{201F}\x{3000}-\x{3002}]+)",
    R"(\s+$)",
    kWidePattern,
    R"(\p{N})"};

}  // namespace

std::optional<PreTokenizer> pre_tokenizer_named(std::string_view name) {
    const auto* found = std::find_if(kNames.begin(), kNames.end(),
                                     [name](const Name& known) { return known.name == name; });
    return found == kNames.end() ? std::nullopt : std::optional(found->kind);
}

std::string_view pre_tokenizer_names() {
    return "gpt-2 (also olmo), smollm (also starcoder, refact, command-r), llama-bpe (also llama3, "
           "llama-v3, falcon3, pixtral), qwen2 (also deepseek-r1-qwen, megrez, stablelm2, hunyuan),"
           " qwen35, gpt-4o (also o200k, llama4, kanana2), tekken, deepseek-v3 (also hunyuan-dense,"
           " joyai-llm), deepseek-coder, deepseek-llm";
}

std::span<const std::string_view> patterns_of(PreTokenizer kind) {
    switch (kind) {
        case PreTokenizer::gpt2:
            return kGpt2Patterns;
        case PreTokenizer::gpt2_digits:
            return kGpt2DigitsPatterns;
        case PreTokenizer::llama3:
            return kLlama3Patterns;
        case PreTokenizer::qwen2:
            return kQwen2Patterns;
        case PreTokenizer::qwen35:
            return kQwen35Patterns;
        case PreTokenizer::o200k:
            return kO200kPatterns;
        case PreTokenizer::tekken:
            return kTekkenPatterns;
        case PreTokenizer::deepseek_v3:
            return kDeepseekV3Patterns;
        case PreTokenizer::deepseek_coder:
            return kDeepseekCoderPatterns;
        case PreTokenizer::deepseek_llm:
            return kDeepseekLlmPatterns;
    }
    return {};
}

PreTokenizerHabits habits_of(PreTokenizer kind) {
    if (kind == PreTokenizer::llama3 || kind == PreTokenizer::tekken) return {true, true};
    return {kind == PreTokenizer::o200k, false};
}

std::string_view WordCutter::next() {
    const std::size_t start = at_;
    at_ = word_end();
    return text_.substr(start, at_ - start);
}

std::size_t WordCutter::word_end() {
    const words::Reader reader(text_);
    switch (kind_) {
        case PreTokenizer::gpt2:
            return words::gpt2_end(reader, at_);
        case PreTokenizer::gpt2_digits:
            return words::gpt2_digits_end(text_, at_);
        case PreTokenizer::llama3:
            return words::letters_end(reader, at_, {false, 3});
        case PreTokenizer::qwen2:
            return words::letters_end(reader, at_, {false, 1});
        case PreTokenizer::qwen35:
            return words::letters_end(reader, at_, {true, 1});
        case PreTokenizer::o200k:
            return words::cased_end(reader, at_, {true, 3});
        case PreTokenizer::tekken:
            return words::cased_end(reader, at_, {false, 1});
        case PreTokenizer::deepseek_v3:
            return words::deepseek_v3_end(text_, at_);
        case PreTokenizer::deepseek_coder:
            return words::deepseek_lines_end(text_, at_, words::LineSplits::coder, blanks_known_);
        case PreTokenizer::deepseek_llm:
            return words::deepseek_lines_end(text_, at_, words::LineSplits::llm, blanks_known_);
    }
    return text_.size();
}

}  // namespace strata::serve
