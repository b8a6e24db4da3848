// Which ids end an answer and which open a turn, from metadata and from the texts of control
// tokens.
#include "engine/model/vocabulary.hpp"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "tests/engine/model/gguf_bytes.hpp"

using namespace strata;
using Catch::Matchers::Contains;
using test::GgufFile;

namespace {

constexpr std::int32_t kNormal = 1;
constexpr std::int32_t kControl = 3;
constexpr std::int32_t kUserDefined = 4;

struct Token {
    const char* text;
    std::int32_t type;
};

GgufFile file_of(const std::vector<Token>& tokens) {
    std::vector<std::string> texts;
    std::vector<std::int32_t> types;
    for (const Token& token : tokens) {
        texts.emplace_back(token.text);
        types.push_back(token.type);
    }
    GgufFile file;
    file.texts("tokenizer.ggml.tokens", texts).array("tokenizer.ggml.token_type", 5, types);
    return file;
}

Result<VocabularyFacts> facts_from(const GgufFile& file, std::int64_t vocabulary = 16) {
    const auto bytes = file.bytes();
    const auto header = gguf::parse_header(bytes, bytes.size());
    REQUIRE(header);
    return read_vocabulary(*header, vocabulary);
}

}  // namespace

TEST_CASE("end ids are those of the metadata and then those known by their text") {
    GgufFile file = file_of(
        {{"a", kNormal}, {"<|endoftext|>", kControl}, {"<|im_end|>", kControl}, {"x", kControl}});
    file.u32("tokenizer.ggml.eos_token_id", 3)
        .u32("tokenizer.ggml.eot_token_id", 2)
        .u32("tokenizer.ggml.eom_token_id", 3);
    CHECK(facts_from(file)->end_ids == TokenIds{3, 2, 1});
    CHECK(facts_from(file_of({{"<|eot_id|>", kControl}, {"<|eom_id|>", kControl}}))->end_ids ==
          TokenIds{0, 1});
    // Text that merely looks like an end token does not end an answer.
    CHECK(facts_from(file_of({{"<|im_end|>", kNormal}, {"<|eot_id|>", kUserDefined}}))
              ->end_ids.empty());
}

TEST_CASE("the turn token is the first known one that is a control token") {
    const auto turn = [](const std::vector<Token>& tokens) {
        return facts_from(file_of(tokens))->turn_open;
    };
    CHECK(turn({{"a", kNormal}, {"<|im_start|>", kControl}}) == 1);
    CHECK(turn({{"<start_of_turn>", kControl}, {"<|start_header_id|>", kControl}}) == 1);
    CHECK(turn({{"<|turn>", kControl}, {"<start_of_turn>", kControl}}) == 1);
    CHECK(turn({{"<|im_start|>", kNormal}, {"<|turn>", kControl}}) == 1);
    CHECK(turn({{"<|im_start|>", kUserDefined}, {"b", kControl}}) == -1);
}

TEST_CASE("the word system is found by its text alone") {
    CHECK(facts_from(file_of({{"systems", kNormal}, {"system", kNormal}}))->system_word == 1);
    CHECK(facts_from(file_of({{"systems", kNormal}}))->system_word == -1);
}

TEST_CASE("a file without a vocabulary has no facts but its name and ids") {
    GgufFile file;
    file.text("general.name", "Nameless").u32("tokenizer.ggml.eos_token_id", 15);
    const auto facts = facts_from(file);
    REQUIRE(facts);
    CHECK(facts->name == "Nameless");
    CHECK(facts->end_ids == TokenIds{15});
    CHECK(facts->turn_open == -1);
    CHECK(facts->system_word == -1);
}

TEST_CASE("ids and lists that do not fit the model are refused by key") {
    const auto refusal = [](const GgufFile& file) {
        const auto facts = facts_from(file);
        REQUIRE_FALSE(facts);
        return facts.error().text;
    };
    const auto eos = [](std::int32_t id) {
        return GgufFile().i32("tokenizer.ggml.eos_token_id", id);
    };
    CHECK_THAT(refusal(eos(16)),
               Contains("tokenizer.ggml.eos_token_id is 16") && Contains("0 to 15"));
    CHECK_THAT(refusal(eos(-1)), Contains("tokenizer.ggml.eos_token_id"));
    CHECK_THAT(refusal(GgufFile().u32("general.name", 1)), Contains("general.name"));
    CHECK_THAT(refusal(GgufFile().text("tokenizer.ggml.tokens", "a")),
               Contains("tokenizer.ggml.tokens"));
    CHECK_THAT(
        refusal(GgufFile().texts("tokenizer.ggml.tokens", std::vector<std::string>(17, "t"))),
        Contains("17"));
    GgufFile uneven;
    uneven.texts("tokenizer.ggml.tokens", {"a", "b"})
        .array<std::int32_t>("tokenizer.ggml.token_type", 5, {1});
    CHECK_THAT(refusal(uneven), Contains("tokenizer.ggml.token_type"));
    GgufFile wrong;
    wrong.texts("tokenizer.ggml.tokens", {"a"})
        .array<float>("tokenizer.ggml.token_type", 6, {1.0F});
    CHECK_THAT(refusal(wrong), Contains("tokenizer.ggml.token_type"));
}
