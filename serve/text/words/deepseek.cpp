// The scanners of the deepseek vocabularies. They publish several splits that are applied one after
// the other, each inside what the splits before it left; what none of them takes stays together.
// Here every character is asked once which split owns it.
#include <algorithm>
#include <array>

#include "serve/text/words/scanners.hpp"

namespace strata::serve::words {
namespace {

bool is_ascii_letter(char32_t code) {
    return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z');
}
bool is_ascii_sign(char32_t code) {
    return code > ' ' && code < 0x7F && !is_ascii_letter(code) && !(code >= '0' && code <= '9');
}
bool joins_word(Class kind) {
    return is_letter(kind) || kind == Class::mark;
}

// What the third pattern of deepseek-v3 does not match: such a character before no letter or mark.
bool is_gap(const Reader& reader, std::size_t position) {
    const Char c = reader.at(position);
    if (c.bytes == 0 || c.kind != Class::other) return false;
    const Char next = reader.at(position + c.bytes);
    return next.bytes == 0 || !joins_word(next.kind);
}

// The third pattern, between numbers and East Asian runs.
std::size_t deepseek_v3_plain_end(const Reader& reader, std::size_t start) {
    const Char first = reader.at(start);
    const std::size_t after = start + first.bytes;
    // `[!-/:-@\[-`{-~][A-Za-z]+`
    if (is_ascii_sign(first.code) && is_ascii_letter(reader.at(after).code)) {
        return reader.run_of(after, [](const Char& c) { return is_ascii_letter(c.code); });
    }
    // `[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+`
    if (joins_word(first.kind)) return reader.run(start, joins_word);
    if (first.kind == Class::space || first.kind == Class::other) {
        if (const std::size_t end = reader.run(after, joins_word); end > after) return end;
    }
    // ` ?[\p{P}\p{S}]+[\r\n]*`
    const std::size_t body = first.code == ' ' ? after : start;
    const std::size_t end = reader.run(
        body, [](Class kind) { return kind == Class::punctuation || kind == Class::symbol; });
    if (end > body) return reader.run(end, [](Class kind) { return kind == Class::line_end; });
    if (is_blank(first.kind)) return blanks_end(reader, start);
    std::size_t position = start;
    while (is_gap(reader, position)) position += reader.at(position).bytes;
    return position;
}

struct Range {
    char32_t first;
    char32_t last;
};
// The letters of deepseek-llm's second split: those with case of Unicode 11, without modifiers.
// clang-format off
constexpr std::array<Range, 87> kCasedLetters = {{
    {0x41, 0x5A}, {0x61, 0x7A}, {0xB5, 0xB5}, {0xC0, 0xD6}, {0xD8, 0xF6}, {0xF8, 0x1BA},
    {0x1BC, 0x1BF}, {0x1C4, 0x293}, {0x295, 0x2AF}, {0x370, 0x373}, {0x376, 0x376},
    {0x377, 0x377}, {0x37B, 0x37D}, {0x37F, 0x37F}, {0x386, 0x386}, {0x388, 0x38A},
    {0x38C, 0x38C}, {0x38E, 0x3A1}, {0x3A3, 0x3F5}, {0x3F7, 0x481}, {0x48A, 0x52F},
    {0x531, 0x556}, {0x10A0, 0x10C5}, {0x13A0, 0x13F5}, {0x13F8, 0x13FD}, {0x1C90, 0x1CBA},
    {0x1CBD, 0x1CBF}, {0x1D00, 0x1D2B}, {0x1D6B, 0x1D77}, {0x1D79, 0x1D9A}, {0x1E00, 0x1F15},
    {0x1F18, 0x1F1D}, {0x1F20, 0x1F45}, {0x1F48, 0x1F4D}, {0x1F50, 0x1F57}, {0x1F59, 0x1F59},
    {0x1F5B, 0x1F5B}, {0x1F5D, 0x1F5D}, {0x1F5F, 0x1F7D}, {0x1F80, 0x1FB4}, {0x1FB6, 0x1FBC},
    {0x1FBE, 0x1FBE}, {0x1FC2, 0x1FC4}, {0x1FC6, 0x1FCC}, {0x1FD0, 0x1FD3}, {0x1FD6, 0x1FDB},
    {0x1FE0, 0x1FEC}, {0x1FF2, 0x1FF4}, {0x1FF6, 0x1FFC}, {0x2102, 0x2102}, {0x2107, 0x2107},
    {0x210A, 0x2113}, {0x2115, 0x2115}, {0x2119, 0x211D}, {0x2124, 0x2124}, {0x2126, 0x2126},
    {0x2128, 0x2128}, {0x212A, 0x212D}, {0x212F, 0x2134}, {0x2139, 0x2139}, {0x213C, 0x213F},
    {0x2145, 0x2149}, {0x214E, 0x214E}, {0x2183, 0x2183}, {0x2184, 0x2184}, {0x2C00, 0x2C7B},
    {0x2C7E, 0x2CE4}, {0x2CEB, 0x2CEE}, {0x2CF2, 0x2CF2}, {0x2CF3, 0x2CF3}, {0xA640, 0xA66D},
    {0xA680, 0xA69B}, {0xA722, 0xA76F}, {0xA771, 0xA787}, {0xA78B, 0xA78E}, {0xAB70, 0xABBF},
    {0xFB00, 0xFB06}, {0xFB13, 0xFB17}, {0xFF21, 0xFF3A}, {0xFF41, 0xFF5A}, {0x10400, 0x1044F},
    {0x104B0, 0x104D3}, {0x104D8, 0x104FB}, {0x10C80, 0x10CB2}, {0x10CC0, 0x10CF2},
    {0x118A0, 0x118DF}, {0x1E900, 0x1E943},
}};
// `[!-/:-~！-／：-～‘-‟　-。]`
constexpr std::array<Range, 6> kSigns = {{
    {0x21, 0x2F}, {0x3A, 0x7E}, {0x2018, 0x201F}, {0x3000, 0x3002}, {0xFF01, 0xFF0F},
    {0xFF1A, 0xFF5E},
}};
// `[一-龥ࠀ-一가-퟿]`
constexpr std::array<Range, 2> kWide = {{{0x800, 0x9FA5}, {0xAC00, 0xD7FF}}};
// clang-format on

template <std::size_t N>
bool in_ranges(const std::array<Range, N>& ranges, char32_t code) {
    const auto after =
        std::upper_bound(ranges.begin(), ranges.end(), code,
                         [](char32_t c, const Range& range) { return c < range.first; });
    return after != ranges.begin() && code <= std::prev(after)->last;
}

enum class Owner : unsigned char { end, line_end, letters, signs, blanks, wide, number, none };

class Lines {
  public:
    Lines(std::string_view text, LineSplits splits, std::size_t& blanks_known)
        : reader_(text), splits_(splits), blanks_known_(blanks_known) {}

    std::size_t word_end(std::size_t start) {
        const Char first = reader_.at(start);
        const Owner owner = owner_at(start);
        switch (owner) {
            case Owner::end:
            case Owner::line_end:
            case Owner::number:
                return start + first.bytes;
            case Owner::letters:
                return run(is_letter_here(first) ? start : start + first.bytes,
                           [this](const Char& c, std::size_t) { return is_letter_here(c); });
            case Owner::signs:
                return run(is_sign_here(first) ? start : start + first.bytes,
                           [this](const Char&, std::size_t at) { return has_sign(at); });
            case Owner::blanks:
                return blank_run_end(start);
            case Owner::wide:
            case Owner::none:
                break;
        }
        return run(start,
                   [this, owner](const Char&, std::size_t at) { return owner_at(at) == owner; });
    }

  private:
    template <class Belongs>
    std::size_t run(std::size_t position, Belongs belongs) {
        for (Char c = reader_.at(position); c.bytes != 0 && belongs(c, position);
             c = reader_.at(position)) {
            position += c.bytes;
        }
        return position;
    }

    bool is_letter_here(const Char& c) const {
        if (splits_ == LineSplits::coder) return is_letter(c.kind);
        return in_ranges(kCasedLetters, c.code);
    }
    bool is_sign_here(const Char& c) const {
        if (splits_ == LineSplits::coder) return c.kind == Class::punctuation;
        return in_ranges(kSigns, c.code);
    }
    bool has_letter(std::size_t position) const { return is_letter_here(reader_.at(position)); }
    // A blank before a letter went with it.
    bool has_sign(std::size_t position) const {
        const Char c = reader_.at(position);
        return is_sign_here(c) && !is_letter_here(c) &&
               !(c.kind == Class::space && has_letter(position + c.bytes));
    }

    // The splits in their order; each may take one blank before what it wants.
    Owner owner_at(std::size_t position) {
        const Char c = reader_.at(position);
        if (c.bytes == 0) return Owner::end;
        if (c.kind == Class::line_end) return Owner::line_end;
        const bool blank = c.kind == Class::space;
        const std::size_t after = position + c.bytes;
        if (is_letter_here(c) || (blank && has_letter(after))) return Owner::letters;
        if (has_sign(position) || (blank && has_sign(after))) return Owner::signs;
        if (blank && splits_ == LineSplits::llm && ends_its_part(position)) return Owner::blanks;
        if (in_ranges(kWide, c.code)) return Owner::wide;
        return c.kind == Class::number ? Owner::number : Owner::none;
    }

    // The end of the blanks from here that no earlier split took.
    std::size_t blank_run_end(std::size_t position) const {
        while (true) {
            const Char c = reader_.at(position);
            const std::size_t after = position + c.bytes;
            if (c.kind != Class::space || has_letter(after) || has_sign(position) ||
                has_sign(after)) {
                return position;
            }
            position = after;
        }
    }
    // `\s+$`
    bool ends_its_part(std::size_t position) {
        if (position < blanks_known_) return false;
        const std::size_t end = blank_run_end(position);
        const Char next = reader_.at(end);
        const bool last = next.bytes == 0 || next.kind == Class::line_end || has_letter(end) ||
                          has_sign(end) || next.kind == Class::space;
        if (!last) blanks_known_ = end;
        return last;
    }

    Reader reader_;
    LineSplits splits_;
    std::size_t& blanks_known_;
};

}  // namespace

std::size_t deepseek_v3_end(std::string_view text, std::size_t start) {
    const Reader whole(text);
    const Char first = whole.at(start);
    if (first.kind == Class::number) return numbers_end(whole, start, 3);
    if (is_east_asian(first.code)) {
        return whole.run_of(start, [](const Char& c) { return is_east_asian(c.code); });
    }
    return deepseek_v3_plain_end(Reader(text, Border::number_or_east_asian), start);
}

std::size_t deepseek_lines_end(std::string_view text, std::size_t start, LineSplits splits,
                               std::size_t& blanks_known) {
    return Lines(text, splits, blanks_known).word_end(start);
}

}  // namespace strata::serve::words
