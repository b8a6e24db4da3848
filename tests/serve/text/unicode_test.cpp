// The generated tables against PCRE2's, character by character, and UTF-8 against the standard's
// tables.
#include "serve/text/unicode.hpp"

#include <array>

#include <catch2/catch.hpp>

#include "tests/serve/text/support.hpp"

namespace strata::serve {
namespace {

std::string utf8(char32_t code) {
    std::string out;
    append_utf8(out, code);
    return out;
}

std::string changed(std::string_view text, CaseChange change) {
    std::string out;
    for (std::size_t at = 0; at < text.size(); at += utf8_step(text, at).bytes) {
        append_case(out, utf8_step(text, at).code, change);
    }
    return out;
}

TEST_CASE("letters marks numbers and white space are those of PCRE2 for every code point") {
    constexpr std::array<std::string_view, 1> kClasses = {R"((\p{L})|(\p{M})|(\p{N})|(\s))"};
    const text_test::Patterns pattern(kClasses);
    std::size_t different = 0;
    for (char32_t code = 0; code <= 0x10FFFF; ++code) {
        if (code >= 0xD800 && code <= 0xDFFF) continue;
        const int ours = is_letter(code)        ? 1
                         : is_mark(code)        ? 2
                         : is_number(code)      ? 3
                         : is_white_space(code) ? 4
                                                : 0;
        if (ours != pattern.group(utf8(code))) ++different;
    }
    CHECK(different == 0);
}

TEST_CASE("every code point survives encoding and decoding") {
    for (char32_t code = 0; code <= 0x10FFFF; code += code < 0x11000 ? 1 : 97) {
        if (code >= 0xD800 && code <= 0xDFFF) continue;
        const std::string text = utf8(code);
        const Utf8Step step = utf8_step(text, 0);
        if (step.kind != Utf8Kind::valid || step.code != code || step.bytes != text.size())
            FAIL(std::uint32_t(code));
    }
}

TEST_CASE("what one replacement character stands for follows the standard") {
    // Unicode 14, tables 3-8 and 3-9 to 3-11: the lengths of the parts of each broken text.
    struct Row {
        std::string text;
        std::vector<int> lengths;
        bool ends_open;
    };
    const std::vector<Row> rows = {
        {"\xC0\xAF\xE0\x80\xBF\xF0\x81\x82\x41", {1, 1, 1, 1, 1, 1, 1, 1, 1}, false},
        {"\xED\xA0\x80\xED\xBF\xBF\xED\xAF\x41", {1, 1, 1, 1, 1, 1, 1, 1, 1}, false},
        {"\xF4\x91\x92\x93\xFF\x41\x80\xBF\x42", {1, 1, 1, 1, 1, 1, 1, 1, 1}, false},
        {"\xE1\x80\xE2\xF0\x91\x92\xF1\xBF\x41", {2, 1, 3, 2, 1}, false},
        {"a\xF0\x9F\x98", {1, 3}, true},
        {"\xE2\x82", {2}, true},
        {"\xC3", {1}, true},
    };
    for (const Row& row : rows) {
        std::vector<int> lengths;
        Utf8Kind last = Utf8Kind::valid;
        for (std::size_t at = 0; at < row.text.size();
             at += static_cast<std::size_t>(lengths.back())) {
            lengths.push_back(utf8_step(row.text, at).bytes);
            last = utf8_step(row.text, at).kind;
        }
        CHECK(lengths == row.lengths);
        CHECK((last == Utf8Kind::incomplete) == row.ends_open);
        CHECK(!is_utf8(row.text));
    }
}

TEST_CASE("case mappings may change the number of characters") {
    CHECK(changed("Stra\u00dfe \ufb01", CaseChange::upper) == "STRASSE FI");
    CHECK(changed("\u0130I", CaseChange::lower) == "i\u0307i");
    CHECK(changed("\u01c6", CaseChange::title) == "\u01c5");
    CHECK(changed("\u01c6", CaseChange::upper) == "\u01c4");
    CHECK(is_final_sigma("\u039f\u03a3", 2));
    CHECK(is_final_sigma("\u039f\u0301\u03a3'!", 4));
    CHECK(!is_final_sigma("\u039f\u03a3\u0301\u039f", 2));
    CHECK(!is_final_sigma("\u03a3", 0));
}

TEST_CASE("the tables are of Unicode 14") {
    CHECK(unicode_version() == "14.0.0");
    CHECK(category_of(0x1DF00) == Category::Ll);  // new in 14
    CHECK(category_of(0x11F02) == Category::Cn);  // new in 15
}

}  // namespace
}  // namespace strata::serve
