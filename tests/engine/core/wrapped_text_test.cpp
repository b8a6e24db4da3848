// Help texts in lines: how full they are, and that no word is lost.
#include "strata/core/wrapped_text.hpp"

#include <sstream>
#include <vector>

#include <catch2/catch.hpp>

namespace strata {
namespace {

std::vector<std::string> lines_of(const std::string& text) {
    std::istringstream in(text);
    std::vector<std::string> lines;
    for (std::string line; std::getline(in, line);) lines.push_back(line);
    return lines;
}

std::vector<std::string> words_of(const std::string& text) {
    std::istringstream in(text);
    std::vector<std::string> words;
    for (std::string word; in >> word;) words.push_back(word);
    return words;
}

}  // namespace

TEST_CASE("a line is filled to its last column and not one further") {
    CHECK(wrapped("aaa bbb", 2, 9) == "  aaa bbb\n");
    CHECK(wrapped("aaa bbb", 2, 8) == "  aaa\n  bbb\n");
    CHECK(wrapped("aaa bbb c", 0, 9) == "aaa bbb c\n");
    CHECK(wrapped("aaa bbb cc", 0, 9) == "aaa bbb\ncc\n");
}

TEST_CASE("a word longer than a line has one to itself and is not cut") {
    CHECK(wrapped("a bbbbbbbb c", 1, 5) == " a\n bbbbbbbb\n c\n");
    CHECK(wrapped("bbbbbbbb", 1, 5) == " bbbbbbbb\n");
}

TEST_CASE("spaces only part words and no words are no lines") {
    CHECK(wrapped("  a   b ", 1, 20) == " a b\n");
    CHECK(wrapped("", 3, 20).empty());
    CHECK(wrapped("   ", 3, 20).empty());
}

TEST_CASE("every width keeps the words in their order in lines that could not be fuller") {
    const std::string text =
        "tokens of one conversation; 0 = what the model was trained for, at most 32768; allowed: "
        "0 to 16777216; default 0 (STRATA_MAX_CONTEXT)";
    for (std::size_t columns = 1; columns < text.size() + 10; ++columns) {
        for (const std::size_t indent : {0U, 1U, 6U}) {
            INFO(columns << " columns, indent " << indent);
            const std::string out = wrapped(text, indent, columns);
            CHECK(words_of(out) == words_of(text));
            REQUIRE(out.back() == '\n');
            const auto lines = lines_of(out);
            for (std::size_t i = 0; i < lines.size(); ++i) {
                const auto words = words_of(lines[i]);
                REQUIRE_FALSE(words.empty());
                CHECK((lines[i].size() <= columns || words.size() == 1));
                CHECK(lines[i].find_first_not_of(' ') == indent);
                if (i == 0) continue;
                CHECK(lines[i - 1].size() + 1 + words.front().size() > columns);
            }
        }
    }
}

TEST_CASE("without a shape it is that of an option's help") {
    std::string text;
    for (int i = 0; i < 40; ++i) text += "word ";
    for (const auto& line : lines_of(wrapped(text))) {
        CHECK(line.size() <= 80);
        CHECK(line.starts_with("      word"));
    }
}

}  // namespace strata
