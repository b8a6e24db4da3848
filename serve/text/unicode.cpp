// Look-ups in the generated tables. ASCII never leaves the first lines of each function.
#include "serve/text/unicode.hpp"

#include <algorithm>
#include <array>
#include <iterator>
#include <span>

namespace strata::serve {
namespace {

struct CaseRow {
    char32_t code;
    char32_t to[3];  // 0 ends it
};

#include "serve/text/unicode_tables.inc"

constexpr char32_t kCodeMax = 0x10FFFF;
constexpr std::uint8_t kCategoryBits = 0x1F;
constexpr std::uint8_t kCased = 0x20;
constexpr std::uint8_t kIgnorable = 0x40;
constexpr std::uint8_t kDigit = 0x80;

std::uint8_t properties(char32_t code) {
    if (code > kCodeMax) return 0;
    return kProperties[kPropertyBlockOf[code / kPropertyBlock]][code % kPropertyBlock];
}

bool in(Category category, Category first, Category last) {
    return category >= first && category <= last;
}

const CaseRow* find_row(std::span<const CaseRow> rows, char32_t code) {
    const auto at = std::lower_bound(rows.begin(), rows.end(), code,
                                     [](const CaseRow& row, char32_t c) { return row.code < c; });
    return at != rows.end() && at->code == code ? &*at : nullptr;
}

const CaseRow* case_row(char32_t code, CaseChange change) {
    if (change == CaseChange::lower) return find_row(kLower, code);
    if (change == CaseChange::title) {
        if (const CaseRow* row = find_row(kTitle, code)) return row;
    }
    return find_row(kUpper, code);
}

// The range that the second byte of a sequence may have; the lead byte decides it.
struct Lead {
    std::uint8_t length;
    std::uint8_t low;
    std::uint8_t high;
};

Lead lead_of(std::uint8_t byte) {
    if (byte >= 0xC2 && byte <= 0xDF) return {2, 0x80, 0xBF};
    if (byte == 0xE0) return {3, 0xA0, 0xBF};
    if (byte == 0xED) return {3, 0x80, 0x9F};
    if (byte >= 0xE1 && byte <= 0xEF) return {3, 0x80, 0xBF};
    if (byte == 0xF0) return {4, 0x90, 0xBF};
    if (byte >= 0xF1 && byte <= 0xF3) return {4, 0x80, 0xBF};
    if (byte == 0xF4) return {4, 0x80, 0x8F};
    return {0, 0, 0};
}

}  // namespace

Utf8Step utf8_step(std::string_view text, std::size_t at) {
    const auto first = static_cast<std::uint8_t>(text[at]);
    if (first < 0x80) return {first, 1, Utf8Kind::valid};
    const Lead lead = lead_of(first);
    if (lead.length == 0) return {0, 1, Utf8Kind::invalid};
    char32_t code = first & (0x7FU >> lead.length);
    for (std::uint8_t i = 1; i < lead.length; ++i) {
        if (at + i >= text.size()) return {0, i, Utf8Kind::incomplete};
        const auto byte = static_cast<std::uint8_t>(text[at + i]);
        const std::uint8_t low = i == 1 ? lead.low : 0x80;
        const std::uint8_t high = i == 1 ? lead.high : 0xBF;
        if (byte < low || byte > high) return {0, i, Utf8Kind::invalid};
        code = (code << 6U) | (byte & 0x3FU);
    }
    return {code, lead.length, Utf8Kind::valid};
}

void append_utf8(std::string& out, char32_t code) {
    const auto put = [&out](char32_t byte) { out += static_cast<char>(byte); };
    if (code < 0x80) {
        put(code);
    } else if (code < 0x800) {
        put(0xC0U | (code >> 6U));
        put(0x80U | (code & 0x3FU));
    } else if (code < 0x10000) {
        put(0xE0U | (code >> 12U));
        put(0x80U | ((code >> 6U) & 0x3FU));
        put(0x80U | (code & 0x3FU));
    } else {
        put(0xF0U | (code >> 18U));
        put(0x80U | ((code >> 12U) & 0x3FU));
        put(0x80U | ((code >> 6U) & 0x3FU));
        put(0x80U | (code & 0x3FU));
    }
}

bool is_utf8(std::string_view text) {
    for (std::size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_step(text, at);
        if (step.kind != Utf8Kind::valid) return false;
        at += step.bytes;
    }
    return true;
}

std::size_t count_code_points(std::string_view text) {
    return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
        return (static_cast<std::uint8_t>(c) & 0xC0U) != 0x80U;
    }));
}

Category category_of(char32_t code) {
    return static_cast<Category>(properties(code) & kCategoryBits);
}

bool is_letter(char32_t code) {
    return in(category_of(code), Category::Ll, Category::Lu);
}

bool is_mark(char32_t code) {
    return in(category_of(code), Category::Mc, Category::Mn);
}

bool is_number(char32_t code) {
    return in(category_of(code), Category::Nd, Category::No);
}

bool is_white_space(char32_t code) {
    if (code < 0x80) return code == ' ' || (code >= 0x09 && code <= 0x0D);
    return code == 0x85 || in(category_of(code), Category::Zl, Category::Zs);
}

bool is_python_space(char32_t code) {
    return is_white_space(code) || (code >= 0x1C && code <= 0x1F);
}

bool is_python_digit(char32_t code) {
    return (properties(code) & kDigit) != 0;
}

bool is_printable(char32_t code) {
    if (code < 0x80) return code >= 0x20 && code < 0x7F;
    const Category category = category_of(code);
    return !in(category, Category::Cn, Category::Cs) && !in(category, Category::Zl, Category::Zs);
}

void append_case(std::string& out, char32_t code, CaseChange change) {
    if (code < 0x80) {
        const bool low = code >= 'a' && code <= 'z';
        const bool high = code >= 'A' && code <= 'Z';
        const bool flip = change == CaseChange::lower ? high : low;
        out += static_cast<char>(flip ? code ^ 0x20U : code);
        return;
    }
    const CaseRow* row = case_row(code, change);
    if (row == nullptr) {
        append_utf8(out, code);
        return;
    }
    for (const char32_t to : row->to) {
        if (to != 0) append_utf8(out, to);
    }
}

bool changes_case(char32_t code, CaseChange change) {
    std::string before;
    std::string after;
    append_utf8(before, code);
    append_case(after, code, change);
    return before != after;
}

bool is_cased(char32_t code) {
    return (properties(code) & kCased) != 0;
}

bool is_final_sigma(std::string_view text, std::size_t at) {
    constexpr std::size_t kSigmaBytes = 2;
    for (std::size_t next = at + kSigmaBytes; next < text.size();) {
        const Utf8Step step = utf8_step(text, next);
        if (is_cased(step.code)) return false;
        if ((properties(step.code) & kIgnorable) == 0) break;
        next += step.bytes;
    }
    for (std::size_t end = at; end > 0;) {
        std::size_t start = end - 1;
        while (start > 0 && (static_cast<std::uint8_t>(text[start]) & 0xC0U) == 0x80U) --start;
        const Utf8Step step = utf8_step(text, start);
        if (is_cased(step.code)) return true;
        if ((properties(step.code) & kIgnorable) == 0) return false;
        end = start;
    }
    return false;
}

std::string_view unicode_version() {
    return kUnicodeVersion;
}

}  // namespace strata::serve
