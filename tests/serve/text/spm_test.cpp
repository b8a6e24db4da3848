// Sentencepiece vocabularies: merges by their definition, bytes for what is no piece, the space
// before a text, and refusals.
#include "serve/text/spm.hpp"

#include <algorithm>
#include <limits>

#include <catch2/catch.hpp>

#include "serve/text/bpe.hpp"
#include "tests/serve/text/support.hpp"

namespace strata::serve {
namespace {

using text_test::Dice;
using text_test::encode_message;
using text_test::encode_trusted;

std::unique_ptr<Tokenizer> made(const gguf::Header& header) {
    auto tokenizer = make_tokenizer(header);
    REQUIRE(tokenizer.ok());
    return std::move(*tokenizer);
}

gguf::Header without_prefix(const std::vector<std::string>& pieces) {
    gguf::Header header = text_test::spm_header_of(pieces);
    header.metadata["tokenizer.ggml.add_space_prefix"] = false;
    return header;
}

std::vector<std::string> texts(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
    std::vector<std::string> out;
    for (const TokenId id : ids) out.emplace_back(tokenizer.bytes(id));
    return out;
}

// By the definition: of all neighbours that join to a piece the best one, of equal ones the first.
std::vector<std::string> merged_by_definition(const std::vector<std::string>& pieces,
                                              const std::string& text) {
    std::vector<std::string> parts;
    for (const char c : text) parts.emplace_back(1, c);
    while (true) {
        std::size_t best = pieces.size();
        std::size_t at = 0;
        for (std::size_t i = 0; i + 1 < parts.size(); ++i) {
            const auto found = std::find(pieces.begin(), pieces.end(), parts[i] + parts[i + 1]);
            const auto rank = static_cast<std::size_t>(found - pieces.begin());
            if (rank >= best) continue;
            best = rank;
            at = i;
        }
        if (best == pieces.size()) return parts;
        parts[at] += parts[at + 1];
        parts.erase(parts.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
}

TEST_CASE("pieces merge by score and then from the left") {
    const std::vector<std::string> pieces = {"ab",  "bc",   "aa",   "abc", "aab", "ca",
                                             "cab", "bcaa", "aaaa", "a",   "b",   "c"};
    const auto tokenizer = made(without_prefix(pieces));
    Dice dice(17);
    for (std::size_t length = 1; length < 90; ++length) {
        for (int i = 0; i < 8; ++i) {
            std::string text;
            while (text.size() < length) text += "abca"[dice.below(4)];
            CAPTURE(text);
            CHECK(texts(*tokenizer, encode_message(*tokenizer, text)) ==
                  merged_by_definition(pieces, text));
        }
    }
}

TEST_CASE("pieces of equal score merge from the left") {
    gguf::Header header = without_prefix({"a", "ab", "ba"});
    auto& scores = std::get<std::vector<double>>(header.metadata["tokenizer.ggml.scores"]);
    scores[scores.size() - 1] = scores[scores.size() - 2] = -5;
    const auto tokenizer = made(header);
    CHECK(texts(*tokenizer, encode_message(*tokenizer, "aba")) ==
          std::vector<std::string>{"ab", "a"});
    CHECK(texts(*tokenizer, encode_message(*tokenizer, "bab")) ==
          std::vector<std::string>{"ba", "b"});
}

TEST_CASE("what is no piece becomes bytes and decodes to itself") {
    const auto tokenizer = made(text_test::spm_header_of({"\u2581", "a", "\u2581a", "\u00e9"}));
    CHECK(encode_message(*tokenizer, "a\u00e9\u4e2d") ==
          std::vector<TokenId>{261, 262, 3 + 0xE4, 3 + 0xB8, 3 + 0xAD});
    CHECK(encode_message(*tokenizer, "\n") == std::vector<TokenId>{259, 3 + 10});
    Dice dice(23);
    for (int i = 0; i < 2000; ++i) {
        std::string text;
        for (std::size_t n = dice.below(60); n > 0; --n) text += static_cast<char>(dice.below(256));
        if (text.find("\u2581") != std::string::npos) continue;
        CHECK(tokenizer->decode(encode_message(*tokenizer, text)) == text);
    }
}

TEST_CASE("a space stands before the text and after each control token unless the file denies it") {
    const std::vector<std::string> pieces = {"\u2581a", "\u2581\u2581", "\u2581", "a"};
    const auto with = made(text_test::spm_header_of(pieces));
    CHECK(encode_message(*with, "a") == std::vector<TokenId>{259});
    CHECK(encode_message(*with, " a") == std::vector<TokenId>{261, 259});
    CHECK(encode_message(*with, "  a") == std::vector<TokenId>{260, 259});
    CHECK(encode_message(*with, "").empty());
    CHECK(encode_trusted(*with, "<s>a</s>a") == std::vector<TokenId>{1, 259, 2, 259});
    CHECK(encode_trusted(*with, "<s><s>") == std::vector<TokenId>{1, 1});
    CHECK(encode_trusted(*with, "<unk>") == std::vector<TokenId>{0});
    CHECK(with->edges().add_bos);
    const auto denied = made(without_prefix(pieces));
    CHECK(encode_message(*denied, "a") == std::vector<TokenId>{262});
    CHECK(encode_trusted(*denied, "<s>a") == std::vector<TokenId>{1, 262});
    for (const auto* tokenizer : {with.get(), denied.get()}) {
        for (const std::string text : {"a", " a", "   a", "<s>a</s> a", " ", "a ", "<s>"}) {
            CAPTURE(text);
            CHECK(tokenizer->decode(encode_trusted(*tokenizer, text)) == text);
        }
    }
}

TEST_CASE("the lower block of sentencepiece in a text is a space") {
    const auto tokenizer = made(text_test::spm_header_of({"\u2581a", "\u2581", "a"}));
    CHECK(encode_message(*tokenizer, "a\u2581a") == encode_message(*tokenizer, "a a"));
}

TEST_CASE("borders of pieces change no id of a sentencepiece vocabulary") {
    const auto tokenizer = made(text_test::spm_header_of(
        {"\u2581", "h", "e", "l", "o", "he", "ll", "llo", "hello", "\u2581hello", "\u2581\u2581"}));
    const std::string text = "hello  hell\u00e9 hello\nhe";
    const auto whole = encode_trusted(*tokenizer, text);
    Dice dice(29);
    for (int i = 0; i < 200; ++i) {
        std::vector<PromptPiece> pieces;
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t length = std::min(dice.below(6), text.size() - at);
            pieces.push_back({text.substr(at, length), dice.below(2) == 0});
            at += length;
        }
        CHECK(tokenizer->encode(pieces) == whole);
    }
}

TEST_CASE("a message's text gives no control token of a sentencepiece vocabulary") {
    gguf::Header header = text_test::spm_header_of({"<s", ">", "<", "s", "ab", "a", "b"});
    auto& types = std::get<std::vector<std::int64_t>>(header.metadata["tokenizer.ggml.token_type"]);
    types[259 + 4] = 4;  // "ab" is user-defined
    const auto tokenizer = made(header);
    for (const std::string text : {"<s>", "</s>", "<unk>", "<0x41>", "ab", "a<s>b"}) {
        for (const TokenId id : encode_message(*tokenizer, text)) {
            CHECK((tokenizer->kind(id) == TokenKind::normal ||
                   tokenizer->kind(id) == TokenKind::byte));
        }
        CHECK(tokenizer->decode(encode_message(*tokenizer, text)) == text);
    }
    CHECK(tokenizer->encode("ab", ParseSpecial::yes) == std::vector<TokenId>{263});
    CHECK(tokenizer->encode("ab", ParseSpecial::no).size() == 3);  // a space, a, b
}

TEST_CASE("an unused piece takes part in merges and is undone") {
    gguf::Header header = without_prefix({"ab", "abc", "abcd", "a", "b", "c", "d"});
    auto& types = std::get<std::vector<std::int64_t>>(header.metadata["tokenizer.ggml.token_type"]);
    types[259 + 1] = 5;
    const auto tokenizer = made(header);
    CHECK(texts(*tokenizer, encode_message(*tokenizer, "abcd")) ==
          std::vector<std::string>{"abcd"});
    CHECK(texts(*tokenizer, encode_message(*tokenizer, "abce")) ==
          std::vector<std::string>{"ab", "c", "e"});
}

TEST_CASE("a mebibyte of hostile text is merged by score well under a second") {
    std::vector<std::string> pieces = {"\u2581", "a", "aa", "aaaa", "aaaaaaaa", "b", "ab"};
    std::string spaces = "\u2581";
    for (int i = 0; i < 4; ++i) pieces.push_back(spaces += spaces);
    const auto tokenizer = made(text_test::spm_header_of(pieces));
    constexpr std::size_t kBytes = std::size_t{1} << 20U;
    for (const std::string unit : {"a", " ", "\n", "<", "<s", "ab", "\u00e9", "\xff", "a\u0301"}) {
        std::string text;
        while (text.size() < kBytes) text += unit;
        const double start = text_test::cpu_seconds();
        const auto ids = encode_trusted(*tokenizer, text);
        CAPTURE(unit);
        CHECK(text_test::cpu_seconds() - start < 5.0);  // measured: 0.1 to 0.4 s
        CHECK(tokenizer->decode(ids) == text);
    }
    const std::string longest(kWordBytesMax * 2 + 1, 'a');
    CHECK(tokenizer->decode(encode_message(*tokenizer, longest)) == longest);
}

TEST_CASE("a sentencepiece vocabulary that lacks a part is refused by its name") {
    const auto refusal = [](const char* key, gguf::Value value) {
        gguf::Header header = text_test::spm_header_of({"a"});
        header.metadata[key] = std::move(value);
        const auto tokenizer = make_tokenizer(header);
        return tokenizer.ok() ? std::string("accepted") : tokenizer.error().text;
    };
    CHECK_THAT(refusal("tokenizer.ggml.scores", std::vector<double>(3)), Catch::Contains("3 entr"));
    CHECK_THAT(refusal("tokenizer.ggml.scores", std::string("a")), Catch::Contains("floats"));
    const double nan = std::numeric_limits<double>::quiet_NaN();
    CHECK_THAT(refusal("tokenizer.ggml.scores", std::vector<double>(260, nan)),
               Catch::Contains("scores[0] is not a number"));
    CHECK_THAT(refusal("tokenizer.ggml.add_space_prefix", std::string("a")),
               Catch::Contains("add_space_prefix"));
    gguf::Header header = text_test::spm_header_of({"a"});
    header.metadata.erase("tokenizer.ggml.scores");
    CHECK_THAT(make_tokenizer(header).error().text, Catch::Contains("tokenizer.ggml.scores"));
    header = text_test::spm_header_of({"a"});
    std::get<gguf::StringArray>(header.metadata["tokenizer.ggml.tokens"]).values[3 + 65] = "zz";
    CHECK_THAT(make_tokenizer(header).error().text, Catch::Contains("byte 65"));
}

}  // namespace
}  // namespace strata::serve
