// Characters as the word scanners see them: steps through UTF-8, each character in one class, and
// the places where a piece of text ends for a pattern. Knows no pattern.
//
// Invariants:
//  1. A byte that is no UTF-8 is a character of class `other` with code 0.
//  2. Behind a border character there is nothing: patterns that follow an earlier split of the text
//     see the part before it as a whole text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "serve/text/unicode.hpp"

namespace strata::serve::words {

enum class Class : std::uint8_t {
    other,
    upper,   // Lu, Lt
    lower,   // Ll
    letter,  // Lm, Lo
    mark,
    number,
    space,     // White_Space but \r and \n
    line_end,  // \r, \n
    punctuation,
    symbol
};

struct Char {
    Class kind = Class::other;
    std::uint8_t bytes = 0;  // 0 at the end of the text
    char32_t code = 0;
};

Class class_of(char32_t code);

inline bool is_letter(Class kind) {
    return kind == Class::upper || kind == Class::lower || kind == Class::letter;
}
inline bool is_blank(Class kind) {
    return kind == Class::space || kind == Class::line_end;
}
// [^\s\p{L}\p{N}]
inline bool is_sign(Class kind) {
    return kind == Class::other || kind == Class::mark || kind == Class::punctuation ||
           kind == Class::symbol;
}
// The runs that deepseek-v3 cuts out: unified ideographs up to U+9FA5, hiragana, katakana.
inline bool is_east_asian(char32_t code) {
    return (code >= 0x4E00 && code <= 0x9FA5) || (code >= 0x3040 && code <= 0x30FF);
}

enum class Border : std::uint8_t { none, number, number_or_east_asian };

class Reader {
  public:
    explicit Reader(std::string_view text, Border border = Border::none)
        : text_(text), border_(border) {}

    Char at(std::size_t position) const {
        if (position >= text_.size()) return {};
        const Utf8Step step = utf8_step(text_, position);
        if (step.kind != Utf8Kind::valid) return {Class::other, step.bytes, 0};
        const Char found = {class_of(step.code), step.bytes, step.code};
        return is_border(found) ? Char{} : found;
    }
    // The end of the run of characters for which `belongs` holds, by class or by character.
    template <class Belongs>
    std::size_t run(std::size_t position, Belongs belongs) const {
        for (Char c = at(position); c.bytes != 0 && belongs(c.kind); c = at(position)) {
            position += c.bytes;
        }
        return position;
    }
    template <class Belongs>
    std::size_t run_of(std::size_t position, Belongs belongs) const {
        for (Char c = at(position); c.bytes != 0 && belongs(c); c = at(position)) {
            position += c.bytes;
        }
        return position;
    }

  private:
    bool is_border(const Char& c) const {
        if (border_ == Border::none) return false;
        return c.kind == Class::number ||
               (border_ == Border::number_or_east_asian && is_east_asian(c.code));
    }

    std::string_view text_;
    Border border_;
};

// 's|'t|'re|'ve|'m|'ll|'d with the apostrophe at `start`; 0 when there is none.
std::size_t contraction_end(const Reader& reader, std::size_t start, bool ignore_case);
// \p{N}{1,most}; `start` when there is no number.
std::size_t numbers_end(const Reader& reader, std::size_t start, std::size_t most);
// \s*[\r\n]+|\s+(?!\S)|\s+ : up to the last line end of a run of blanks; where it has none, the run
// without its last character, which stays with the word that follows; `start` when there is no
// blank.
std::size_t blanks_end(const Reader& reader, std::size_t start);
// \s+(?!\S)|\s+ : the same where line ends are no words of their own.
std::size_t plain_blanks_end(const Reader& reader, std::size_t start);

}  // namespace strata::serve::words
