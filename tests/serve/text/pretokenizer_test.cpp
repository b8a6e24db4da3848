// The scanners against the published patterns under PCRE2: random texts of the characters that
// decide.
#include "serve/text/pretokenizer.hpp"

#include <catch2/catch.hpp>

#include "serve/text/unicode.hpp"
#include "tests/serve/text/support.hpp"

namespace strata::serve {
namespace {

using text_test::Dice;
using text_test::Patterns;

constexpr PreTokenizer kAll[] = {PreTokenizer::gpt2,           PreTokenizer::gpt2_digits,
                                 PreTokenizer::llama3,         PreTokenizer::qwen2,
                                 PreTokenizer::qwen35,         PreTokenizer::o200k,
                                 PreTokenizer::tekken,         PreTokenizer::deepseek_v3,
                                 PreTokenizer::deepseek_coder, PreTokenizer::deepseek_llm};

std::vector<std::size_t> words(PreTokenizer kind, std::string_view text) {
    std::vector<std::size_t> lengths;
    for (WordCutter cutter(kind, text); !cutter.done();) lengths.push_back(cutter.next().size());
    return lengths;
}

// Characters at which the alternatives part, among them the odd ones of each class.
const std::u32string kDeciding =
    U"aZaZbB\u00c9\u00e9\u0448\u4e2d\u05d0\u02b0\u01c5\u0301\u0302\u0903\u20dd09\u0663\u00bd\u2160'"
    U"''"
    U"sStTmMdDrReEvVlL\u017f\u212a"
    U"      "
    U"\n\n\r\r\t\v\f\u0085\u00a0\u2028\u3000\u180e\ufeff\u200b.,!?-_<>{}///+$`"
    U"\u3042\u30a2\u3099\u30fb\u3001\u3002\uff01\uff21\u2019\u2192\u2460\u8c48\ud7a3\u0627\u2003"
    U"\"\u20ac\u2014\U0001f600\U000e0100\u0378\ue000\u0000";

std::string random_text(Dice& dice) {
    std::string text;
    const std::size_t length = 1 + dice.below(24);
    while (count_code_points(text) < length) {
        char32_t code = kDeciding[dice.below(kDeciding.size())];
        if (dice.below(12) == 0) code = static_cast<char32_t>(dice.below(0x110000));
        if (code >= 0xD800 && code <= 0xDFFF) continue;
        for (std::size_t i = dice.below(5) == 0 ? dice.below(4) + 1 : 1; i > 0; --i)
            append_utf8(text, code);
    }
    return text;
}

TEST_CASE("every scanner cuts as its published pattern does") {
    for (const PreTokenizer kind : kAll) {
        const Patterns pattern(patterns_of(kind));
        Dice dice(7 + static_cast<std::uint64_t>(kind));
        for (int i = 0; i < 30000; ++i) {
            const std::string text = random_text(dice);
            if (words(kind, text) == pattern.words(text)) continue;
            CAPTURE(int(kind), text);
            CHECK(words(kind, text) == pattern.words(text));
            return;
        }
    }
}

TEST_CASE("marks join letters for qwen35 and stand alone for qwen2") {
    CHECK(words(PreTokenizer::qwen35, "e\u0301a") == std::vector<std::size_t>{4});
    CHECK(words(PreTokenizer::qwen2, "e\u0301a") == std::vector<std::size_t>{1, 3});
}

TEST_CASE("digits go by three for llama3 and alone for qwen2") {
    CHECK(words(PreTokenizer::llama3, "12345") == std::vector<std::size_t>{3, 2});
    CHECK(words(PreTokenizer::qwen2, "123") == std::vector<std::size_t>{1, 1, 1});
    CHECK(words(PreTokenizer::gpt2, "12345") == std::vector<std::size_t>{5});
}

// Every character alone, after a letter and before one: the classes of the scanner are the
// pattern's.
TEST_CASE("every scanner sees each character as its published pattern does") {
    for (const PreTokenizer kind : kAll) {
        const Patterns pattern(patterns_of(kind));
        for (char32_t code = 1; code < 0x32000; ++code) {
            if (code >= 0xD800 && code <= 0xDFFF) continue;
            std::string text = "a";
            append_utf8(text, code);
            append_utf8(text, code);
            text += "A ";
            append_utf8(text, code);
            if (words(kind, text) == pattern.words(text)) continue;
            CAPTURE(int(kind), std::uint32_t(code));
            CHECK(words(kind, text) == pattern.words(text));
            break;
        }
    }
}

TEST_CASE("capitals begin words for o200k and contractions end them") {
    const auto cut = [](PreTokenizer kind, std::string_view text) { return words(kind, text); };
    CHECK(cut(PreTokenizer::o200k, "camelCase") == std::vector<std::size_t>{5, 4});
    CHECK(cut(PreTokenizer::o200k, "HTTPServer's") == std::vector<std::size_t>{12});
    CHECK(cut(PreTokenizer::tekken, "it's 12") == std::vector<std::size_t>{2, 2, 1, 1, 1});
}

TEST_CASE("deepseek splits come one after the other") {
    const auto cut = [](PreTokenizer kind, std::string_view text) { return words(kind, text); };
    CHECK(cut(PreTokenizer::deepseek_v3, "\u4f60a1234\u3042") ==
          std::vector<std::size_t>{3, 1, 3, 1, 3});
    // The blank before a number ends its part of the text, so it is a word of its own.
    CHECK(cut(PreTokenizer::deepseek_v3, "a  1") == std::vector<std::size_t>{1, 2, 1});
    // No split wants the blanks and the symbols: they stay together.
    CHECK(cut(PreTokenizer::deepseek_coder, "x += 10\n\n") ==
          std::vector<std::size_t>{1, 4, 1, 1, 1, 1});
}

TEST_CASE("names of released files map to a pattern and others to none") {
    CHECK(pre_tokenizer_named("qwen2") == PreTokenizer::qwen2);
    CHECK(pre_tokenizer_named("qwen35") == PreTokenizer::qwen35);
    CHECK(pre_tokenizer_named("llama-bpe") == PreTokenizer::llama3);
    CHECK(pre_tokenizer_named("gpt-2") == PreTokenizer::gpt2);
    CHECK(pre_tokenizer_named("gpt-4o") == PreTokenizer::o200k);
    CHECK(pre_tokenizer_named("tekken") == PreTokenizer::tekken);
    CHECK(pre_tokenizer_named("deepseek-v3") == PreTokenizer::deepseek_v3);
    CHECK(pre_tokenizer_named("smollm") == PreTokenizer::gpt2_digits);
    CHECK(!pre_tokenizer_named("qwen3"));
    CHECK(!pre_tokenizer_named(""));
}

TEST_CASE("cutting a mebibyte of anything takes linear time") {
    constexpr std::size_t kBytes = std::size_t{1} << 20U;
    for (const std::string unit :
         {"a",       " ",       "\n",      "\r\n ", " \n\t",    "'",   "\u0301",
          "9",       "<",       " x",      "\xff",  "\xe2\x82", "aA",  "A\u4e2d",
          "\u0301A", " \u2003", "\u0627 ", "\x01",  "\u3000",   "a's", "\u4e2d\u3042"}) {
        std::string text;
        while (text.size() < kBytes) text += unit;
        for (const PreTokenizer kind : kAll) {
            const double start = text_test::cpu_seconds();
            words(kind, text);
            CAPTURE(unit, int(kind));
            // Measured: 5 to 30 ms; a quadratic scan would take minutes.
            CHECK(text_test::cpu_seconds() - start < 2.0);
        }
    }
}

}  // namespace
}  // namespace strata::serve
