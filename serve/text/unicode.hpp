// Characters as text handling needs them: UTF-8 steps, general categories, the two notions of white
// space and Python's case mappings, all of one pinned Unicode version. It knows no vocabulary and
// no template.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace strata::serve {

// Order of tools/unicode/make_tables.py.
// clang-format off
enum class Category : std::uint8_t {
    Cn, Cc, Cf, Co, Cs, Ll, Lm, Lo, Lt, Lu, Mc, Me, Mn, Nd, Nl, No,
    Pc, Pd, Pe, Pf, Pi, Po, Ps, Sc, Sk, Sm, So, Zl, Zp, Zs
};
// clang-format on

enum class Utf8Kind : std::uint8_t {
    valid,
    invalid,     // no sequence can begin with these bytes
    incomplete,  // the text ends inside a sequence that is good so far
};

// One step through bytes. Of what is not valid, `bytes` is the longest part that one U+FFFD stands
// for (Unicode 14, section 3.9, "maximal subpart").
struct Utf8Step {
    char32_t code = 0;
    std::uint8_t bytes = 1;
    Utf8Kind kind = Utf8Kind::valid;
};

// Precondition: at < text.size().
Utf8Step utf8_step(std::string_view text, std::size_t at);
void append_utf8(std::string& out, char32_t code);
bool is_utf8(std::string_view text);
// Code points of valid UTF-8; of other bytes, each one that is no continuation counts.
std::size_t count_code_points(std::string_view text);

Category category_of(char32_t code);
bool is_letter(char32_t code);
bool is_mark(char32_t code);
bool is_number(char32_t code);
bool is_white_space(
    char32_t code);  // the Unicode property: what \s means in the vocabularies' patterns
bool is_python_space(char32_t code);  // str.isspace: strip(), split() and templates' own whitespace
bool is_python_digit(char32_t code);  // str.isdigit
bool is_printable(char32_t code);     // str.isprintable: what repr() shows as it is

enum class CaseChange : std::uint8_t { lower, upper, title };
// Appends what the character becomes: one to three code points.
void append_case(std::string& out, char32_t code, CaseChange change);
bool changes_case(char32_t code, CaseChange change);
// The part of Python's lower() that looks at the neighbours: is the capital sigma at byte `at` the
// last letter of its word?
bool is_final_sigma(std::string_view text, std::size_t at);
bool is_cased(char32_t code);

std::string_view unicode_version();

}  // namespace strata::serve
