// Classes from categories, and the parts that several published patterns share.
#include "serve/text/words/reader.hpp"

#include <utility>

namespace strata::serve::words {
namespace {

char32_t folded(char32_t code) {
    if (code >= 'A' && code <= 'Z') return code + 32;
    return code == 0x17F ? U's' : code;  // the long s is an s when case is ignored
}

bool in(Category category, Category first, Category last) {
    return category >= first && category <= last;
}

}  // namespace

Class class_of(char32_t code) {
    if (code == '\r' || code == '\n') return Class::line_end;
    const Category category = category_of(code);
    if (category == Category::Ll) return Class::lower;
    if (category == Category::Lu || category == Category::Lt) return Class::upper;
    if (in(category, Category::Lm, Category::Lo)) return Class::letter;
    if (in(category, Category::Mc, Category::Mn)) return Class::mark;
    if (in(category, Category::Nd, Category::No)) return Class::number;
    if (in(category, Category::Pc, Category::Ps)) return Class::punctuation;
    if (in(category, Category::Sc, Category::So)) return Class::symbol;
    return is_white_space(code) ? Class::space : Class::other;
}

std::size_t contraction_end(const Reader& reader, std::size_t start, bool ignore_case) {
    const auto letter = [&](std::size_t position) {
        const Char c = reader.at(position);
        return std::pair(ignore_case ? folded(c.code) : c.code, position + c.bytes);
    };
    if (reader.at(start).code != '\'') return 0;
    const auto [first, after_first] = letter(start + 1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return after_first;
    const auto [second, after_second] = letter(after_first);
    if ((first == 'r' || first == 'v') && second == 'e') return after_second;
    return first == 'l' && second == 'l' ? after_second : 0;
}

std::size_t numbers_end(const Reader& reader, std::size_t start, std::size_t most) {
    std::size_t end = start;
    for (std::size_t i = 0; i < most; ++i) {
        const Char c = reader.at(end);
        if (c.bytes == 0 || c.kind != Class::number) break;
        end += c.bytes;
    }
    return end;
}

std::size_t plain_blanks_end(const Reader& reader, std::size_t start) {
    std::size_t last = start;
    std::size_t position = start;
    Char c = reader.at(position);
    for (; c.bytes != 0 && is_blank(c.kind); c = reader.at(position)) {
        last = position;
        position += c.bytes;
    }
    return c.bytes == 0 || last == start ? position : last;
}

std::size_t blanks_end(const Reader& reader, std::size_t start) {
    std::size_t lines = 0;
    std::size_t position = start;
    for (Char c = reader.at(position); c.bytes != 0 && is_blank(c.kind); c = reader.at(position)) {
        position += c.bytes;
        if (c.kind == Class::line_end) lines = position;
    }
    return lines != 0 ? lines : plain_blanks_end(reader, start);
}

}  // namespace strata::serve::words
