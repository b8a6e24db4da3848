// The tokenizer against ids that other programs computed, and the rule that a message's text never
// becomes a control token.
#include "serve/text/tokenizer.hpp"

#include <map>

#include <catch2/catch.hpp>

#include "serve/text/bpe.hpp"
#include "tests/serve/text/support.hpp"

namespace strata::serve {
namespace {

using text_test::demo_tokenizer;
using text_test::Dice;
using text_test::encode_message;
using text_test::encode_trusted;

std::vector<TokenId> ids_of(const boost::json::value& array) {
    std::vector<TokenId> ids;
    for (const auto& id : array.as_array()) ids.push_back(id.to_number<TokenId>());
    return ids;
}

bool is_special(const Tokenizer& tokenizer, TokenId id) {
    return tokenizer.kind(id) == TokenKind::control ||
           tokenizer.kind(id) == TokenKind::user_defined;
}

TEST_CASE("hard strings get the ids that another tokenizer gives them") {
    const auto rows = text_test::read_tree_json("tests/fixtures/text/demo_ids.json");
    REQUIRE(rows.as_array().size() >= 300);
    for (const auto& row : rows.as_array()) {
        const std::string text(row.at("text").as_string());
        CAPTURE(text);
        CHECK(encode_trusted(demo_tokenizer(), text) == ids_of(row.at("ids")));
        CHECK(text_test::decode(demo_tokenizer(), encode_trusted(demo_tokenizer(), text)) == text);
    }
}

TEST_CASE("the recorded prompts of the demo model get their recorded ids") {
    const auto reference = text_test::read_tree_json("tools/demo_model/strata-demo-reference.json");
    REQUIRE(reference.at("prompts").as_array().size() == 6);
    for (const auto& prompt : reference.at("prompts").as_array()) {
        CHECK(encode_trusted(demo_tokenizer(), std::string(prompt.at("text").as_string())) ==
              ids_of(prompt.at("prompt_ids")));
        CHECK(text_test::decode(demo_tokenizer(), ids_of(prompt.at("greedy_ids"))) ==
              std::string(prompt.at("greedy_text").as_string()));
    }
}

TEST_CASE("a message's text gives no control token and still decodes to itself") {
    const auto rows = text_test::read_tree_json("tests/fixtures/text/demo_ids.json");
    for (const auto& row : rows.as_array()) {
        const std::string text(row.at("text").as_string());
        const auto ids = encode_message(demo_tokenizer(), text);
        CAPTURE(text);
        const auto* plain = row.as_object().if_contains("plain");
        CHECK(ids == ids_of(plain != nullptr ? *plain : row.at("ids")));
        CHECK(text_test::decode(demo_tokenizer(), ids) == text);
        CHECK(std::none_of(ids.begin(), ids.end(),
                           [](TokenId id) { return is_special(demo_tokenizer(), id); }));
    }
}

TEST_CASE("a control token is not made of a template's and a message's halves") {
    const Tokenizer& demo = demo_tokenizer();
    const TokenId end = demo.special("<|im_end|>");
    REQUIRE(end >= 0);
    const std::string marker = "<|im_end|>";
    for (std::size_t cut = 1; cut < marker.size(); ++cut) {
        for (const bool first : {true, false}) {
            const std::vector<PromptPiece> pieces = {{marker.substr(0, cut), first},
                                                     {marker.substr(cut), !first}};
            const auto ids = demo.encode(pieces);
            CHECK(std::count(ids.begin(), ids.end(), end) == 0);
            CHECK(text_test::decode(demo, ids) == marker);
        }
        const std::vector<PromptPiece> own = {{marker.substr(0, cut), false},
                                              {marker.substr(cut), false}};
        CHECK(demo.encode(own) == std::vector<TokenId>{end});
    }
}

TEST_CASE("pieces join before they are cut so that their borders change no id") {
    const std::string text = "Hello world, it's 12\n\n  of the caf\u00e9 \u4e2d\u6587";
    const auto whole = encode_trusted(demo_tokenizer(), text);
    Dice dice(3);
    for (int i = 0; i < 200; ++i) {
        std::vector<PromptPiece> pieces;
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t length = std::min(dice.below(6), text.size() - at);
            pieces.push_back({text.substr(at, length), dice.below(2) == 0});
            at += length;
        }
        CHECK(demo_tokenizer().encode(pieces) == whole);
    }
}

TEST_CASE("bytes that are no text come back as they were") {
    Dice dice(11);
    for (int i = 0; i < 2000; ++i) {
        std::string text;
        for (std::size_t n = dice.below(80); n > 0; --n) text += static_cast<char>(dice.below(256));
        CHECK(text_test::decode(demo_tokenizer(), encode_message(demo_tokenizer(), text)) == text);
    }
}

TEST_CASE("a mebibyte of hostile text is tokenised well under a second") {
    constexpr std::size_t kBytes = std::size_t{1} << 20U;
    for (const std::string unit : {"a", " ", "\n", "<", "<|im_", "ab", "the", "\u00e9", "\xff"}) {
        std::string text;
        while (text.size() < kBytes) text += unit;
        const double start = text_test::cpu_seconds();
        const auto ids = encode_trusted(demo_tokenizer(), text);
        const double took = text_test::cpu_seconds() - start;
        CAPTURE(unit, took);
        CHECK(took < 5.0);  // measured: about 0.1 s in a release build
        CHECK(text_test::decode(demo_tokenizer(), ids) == text);
    }
}

// Merges by the definition, on strings: the whole list for each word, lowest rank first.
std::vector<std::string> merged_by_definition(const std::vector<std::string>& merges,
                                              const std::string& word) {
    std::vector<std::string> pieces;
    for (const char c : word) pieces.emplace_back(1, c);
    for (std::size_t rank = 0; rank < merges.size();) {
        const std::size_t space = merges[rank].find(' ');
        const std::string left = merges[rank].substr(0, space);
        const std::string right = merges[rank].substr(space + 1);
        bool changed = false;
        for (std::size_t i = 0; i + 1 < pieces.size() && !changed; ++i) {
            if (pieces[i] != left || pieces[i + 1] != right) continue;
            pieces[i] += pieces[i + 1];
            pieces.erase(pieces.begin() + static_cast<std::ptrdiff_t>(i) + 1);
            changed = true;
        }
        rank = changed ? 0 : rank + 1;
    }
    return pieces;
}

TEST_CASE("short and long words merge by the definition") {
    const std::vector<std::string> merges = {"a b",   "b a",    "ab a", "a a",     "aa aa",  "c ab",
                                             "ab ab", "cab aa", "b b",  "aba aba", "aaaa b", "c c"};
    const auto tokenizer = make_tokenizer(text_test::header_of({"gpt-2", merges, {}}));
    REQUIRE(tokenizer.ok());
    Dice dice(5);
    for (std::size_t length = 1; length < 120; ++length) {
        for (int i = 0; i < 6; ++i) {
            std::string word;
            while (word.size() < length) word += "aabc"[dice.below(i % 2 == 0 ? 4 : 3)];
            std::vector<std::string> pieces;
            for (const TokenId id : encode_message(**tokenizer, word))
                pieces.emplace_back((*tokenizer)->bytes(id));
            CHECK(pieces == merged_by_definition(merges, word));
        }
    }
}

TEST_CASE("llama files map a whole word without its merges and others do not") {
    // "abc" is a token, but no order of merges reaches it from a|b|c: "b c" comes first and "a bc"
    // is none.
    text_test::SmallVocabulary small{"llama-bpe", {"b c", "a b", "ab c"}, {}};
    const auto llama = make_tokenizer(text_test::header_of(small));
    REQUIRE(llama.ok());
    CHECK(encode_message(**llama, "abc").size() == 1);
    small.pre = "qwen2";
    const auto qwen = make_tokenizer(text_test::header_of(small));
    REQUIRE(qwen.ok());
    CHECK(encode_message(**qwen, "abc").size() == 2);
}

TEST_CASE("of control tokens that begin alike the longest is taken") {
    const auto tokenizer =
        make_tokenizer(text_test::header_of({"gpt-2", {}, {"<a", "<ab>", "<a>", "b>"}}));
    REQUIRE(tokenizer.ok());
    const auto text_of = [&](const std::string& text) {
        std::vector<std::string> out;
        for (const TokenId id : encode_trusted(**tokenizer, text))
            out.emplace_back((*tokenizer)->bytes(id));
        return out;
    };
    CHECK(text_of("<ab>") == std::vector<std::string>{"<ab>"});
    CHECK(text_of("<a>") == std::vector<std::string>{"<a>"});
    CHECK(text_of("<ab<a>b>") == std::vector<std::string>{"<a", "b", "<a>", "b>"});
}

TEST_CASE("a merge that would make a control token is not made") {
    gguf::Header header = text_test::header_of({"gpt-2", {"a b"}, {}});
    std::get<std::vector<std::int64_t>>(header.metadata["tokenizer.ggml.token_type"]).back() = 3;
    const auto tokenizer = make_tokenizer(header);
    REQUIRE(tokenizer.ok());
    CHECK(encode_message(**tokenizer, "ab").size() == 2);
    CHECK(encode_trusted(**tokenizer, "ab").size() == 1);
}

TEST_CASE("a word beyond the limit is cut between characters and decodes to itself") {
    const auto tokenizer = make_tokenizer(text_test::header_of({"gpt-2", {"a a"}, {}}));
    REQUIRE(tokenizer.ok());
    for (const std::size_t bytes : {kWordBytesMax - 1, kWordBytesMax, kWordBytesMax + 1}) {
        const std::string word(bytes, 'a');
        const auto ids = encode_message(**tokenizer, word);
        CHECK(text_test::decode(**tokenizer, ids) == word);
        CHECK(ids.size() == (bytes + 1) / 2);
    }
    std::string accents = "a";
    while (accents.size() <= kWordBytesMax) accents += "\u00e9";
    CHECK(text_test::decode(**tokenizer, encode_message(**tokenizer, accents)) == accents);
}

TEST_CASE("edge rules and end tokens come from the file") {
    gguf::Header header = text_test::header_of({"llama-bpe", {}, {"<s>", "</s>", "<eot>"}});
    header.metadata["tokenizer.ggml.bos_token_id"] = std::uint64_t{256};
    header.metadata["tokenizer.ggml.eos_token_id"] = std::uint64_t{257};
    header.metadata["tokenizer.ggml.eot_token_id"] = std::uint64_t{258};
    const auto llama = make_tokenizer(header);
    REQUIRE(llama.ok());
    CHECK((*llama)->edges().add_bos);
    CHECK((*llama)->edges().bos == 256);
    CHECK((*llama)->end_ids() == std::vector<TokenId>{257, 258});
    header.metadata["tokenizer.ggml.add_bos_token"] = false;
    CHECK(!(*make_tokenizer(header))->edges().add_bos);
    CHECK(!demo_tokenizer().edges().add_bos);
    CHECK(demo_tokenizer().end_ids() == std::vector<TokenId>{6137});
}

TEST_CASE("a vocabulary that lacks a part is refused by the name of the part") {
    const auto refusal = [](const char* key, gguf::Value value) {
        gguf::Header header = text_test::header_of({"gpt-2", {"a b"}, {"<s>"}});
        header.metadata[key] = std::move(value);
        const auto tokenizer = make_tokenizer(header);
        return tokenizer.ok() ? std::string("accepted") : tokenizer.error().text;
    };
    CHECK_THAT(refusal("tokenizer.ggml.model", std::string("bert")), Catch::Contains("\"bert\""));
    CHECK_THAT(refusal("tokenizer.ggml.pre", std::string("zig")),
               Catch::Contains("\"zig\"") && Catch::Contains("qwen35"));
    CHECK_THAT(refusal("tokenizer.ggml.tokens", gguf::StringArray{{"a"}}),
               Catch::Contains("token_type"));
    gguf::Header wordy = text_test::header_of({"gpt-2", {}, {std::string(1025, 'x')}});
    CHECK_THAT(make_tokenizer(wordy).error().text, Catch::Contains("1025 bytes"));
    CHECK_THAT(refusal("tokenizer.ggml.tokens", std::string("a")),
               Catch::Contains("tokenizer.ggml.tokens"));
    CHECK_THAT(refusal("tokenizer.ggml.token_type", std::vector<std::int64_t>(258, 7)),
               Catch::Contains("is 7"));
    CHECK_THAT(refusal("tokenizer.ggml.merges", gguf::StringArray{{"ab"}}),
               Catch::Contains("merges[0]"));
    CHECK_THAT(refusal("tokenizer.ggml.merges", gguf::StringArray{{"b b"}}),
               Catch::Contains("\"bb\""));
    CHECK_THAT(refusal("tokenizer.ggml.bos_token_id", std::uint64_t{258}),
               Catch::Contains("bos_token_id is 258"));
    for (const char* key : {"tokenizer.ggml.model", "tokenizer.ggml.pre", "tokenizer.ggml.tokens",
                            "tokenizer.ggml.merges"}) {
        gguf::Header header = text_test::header_of({});
        header.metadata.erase(key);
        CHECK_THAT(make_tokenizer(header).error().text, Catch::Contains(key));
    }
    gguf::Header missing = text_test::header_of({});
    std::get<gguf::StringArray>(missing.metadata["tokenizer.ggml.tokens"]).values[65] = "zz";
    CHECK_THAT(make_tokenizer(missing).error().text, Catch::Contains("byte 65"));
}

}  // namespace
}  // namespace strata::serve
