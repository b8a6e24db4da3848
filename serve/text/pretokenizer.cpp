// The scanners. Each tries the alternatives of its pattern in their order; comments name them as
// printed there. All share one reader of classified characters.
#include "serve/text/pretokenizer.hpp"

#include <algorithm>
#include <array>

#include "serve/text/unicode.hpp"

namespace strata::serve {
namespace {

enum class Class : std::uint8_t { other, letter, mark, number, space, line_end };

// Precondition of every function that takes a position: at <= end.
class Reader {
  public:
    explicit Reader(std::string_view text) : text_(text) {}
    std::size_t end() const { return text_.size(); }

    struct Char {
        Class kind = Class::other;
        std::uint8_t bytes = 0;  // 0 at the end of the text
        char32_t code = 0;
    };
    Char at(std::size_t position) const {
        if (position >= text_.size()) return {};
        const Utf8Step step = utf8_step(text_, position);
        if (step.kind != Utf8Kind::valid) return {Class::other, step.bytes, 0};
        return {class_of(step.code), step.bytes, step.code};
    }
    // The end of the run of characters for which `belongs` holds.
    template <class Belongs>
    std::size_t run(std::size_t position, Belongs belongs) const {
        for (Char c = at(position); c.bytes != 0 && belongs(c.kind); c = at(position)) {
            position += c.bytes;
        }
        return position;
    }

  private:
    static Class class_of(char32_t code) {
        if (code == '\r' || code == '\n') return Class::line_end;
        if (is_letter(code)) return Class::letter;
        if (is_number(code)) return Class::number;
        if (is_white_space(code)) return Class::space;
        return is_mark(code) ? Class::mark : Class::other;
    }
    std::string_view text_;
};

bool is_blank(Class kind) {
    return kind == Class::space || kind == Class::line_end;
}

char32_t folded(char32_t code) {
    if (code >= 'A' && code <= 'Z') return code + 32;
    return code == 0x17F ? U's' : code;  // the long s is an s when case is ignored
}

// 's|'t|'re|'ve|'m|'ll|'d after the apostrophe at `start`; 0 when there is none.
std::size_t contraction_end(const Reader& reader, std::size_t start, bool ignore_case) {
    const auto letter = [&](std::size_t position) {
        const Reader::Char c = reader.at(position);
        return std::pair(ignore_case ? folded(c.code) : c.code, position + c.bytes);
    };
    if (reader.at(start).code != '\'') return 0;
    const auto [first, after_first] = letter(start + 1);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return after_first;
    const auto [second, after_second] = letter(after_first);
    if ((first == 'r' || first == 'v') && second == 'e') return after_second;
    return first == 'l' && second == 'l' ? after_second : 0;
}

// \s+(?!\S)|\s+ : a run of blanks, but its last character stays with the word that follows.
std::size_t blanks_end(const Reader& reader, std::size_t start) {
    std::size_t last = start;
    std::size_t position = start;
    for (auto c = reader.at(position); c.bytes != 0 && is_blank(c.kind); c = reader.at(position)) {
        last = position;
        position += c.bytes;
    }
    return position == reader.end() || last == start ? position : last;
}

// \s*[\r\n]+ : up to the last line end of a run of blanks; 0 when the run has none.
std::size_t line_ends_end(const Reader& reader, std::size_t start) {
    std::size_t found = 0;
    std::size_t position = start;
    for (auto c = reader.at(position); c.bytes != 0 && is_blank(c.kind); c = reader.at(position)) {
        position += c.bytes;
        if (c.kind == Class::line_end) found = position;
    }
    return found;
}

std::size_t gpt2_end(const Reader& reader, std::size_t start) {
    if (const std::size_t end = contraction_end(reader, start, false)) return end;
    const bool space = reader.at(start).code == ' ';
    const std::size_t body = space ? start + 1 : start;
    const Class kind = reader.at(body).kind;
    if (body < reader.end() && !is_blank(kind)) {
        // ` ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+`
        const bool word = kind == Class::letter || kind == Class::number;
        return reader.run(body, [kind, word](Class c) {
            return word ? c == kind : c == Class::other || c == Class::mark;
        });
    }
    return blanks_end(reader, start);
}

struct WordRules {
    bool marks_join = false;     // [\p{L}\p{M}]+ for \p{L}+
    std::size_t digits_max = 1;  // \p{N}{1,digits_max}
};

std::size_t llama3_end(const Reader& reader, std::size_t start, WordRules rules) {
    if (const std::size_t end = contraction_end(reader, start, true)) return end;
    const auto in_word = [rules](Class c) {
        return c == Class::letter || (rules.marks_join && c == Class::mark);
    };
    const Reader::Char first = reader.at(start);
    // `[^\r\n\p{L}\p{N}]?\p{L}+`: a mark that joins words is its own leading character as well.
    if (in_word(first.kind)) return reader.run(start, in_word);
    if (first.kind != Class::line_end && first.kind != Class::number) {
        const std::size_t body = start + first.bytes;
        const std::size_t end = reader.run(body, in_word);
        if (end > body) return end;
    }
    if (first.kind == Class::number) {
        std::size_t end = start;
        for (std::size_t i = 0; i < rules.digits_max; ++i) {
            const Reader::Char c = reader.at(end);
            if (c.bytes == 0 || c.kind != Class::number) break;
            end += c.bytes;
        }
        return end;
    }
    // ` ?[^\s\p{L}\p{N}]+[\r\n]*`
    const std::size_t body = first.code == ' ' ? start + 1 : start;
    const std::size_t end = reader.run(body, [rules](Class c) {
        return c == Class::other || (!rules.marks_join && c == Class::mark);
    });
    if (end > body) return reader.run(end, [](Class c) { return c == Class::line_end; });
    if (const std::size_t line_end = line_ends_end(reader, start)) return line_end;
    return blanks_end(reader, start);
}

struct Name {
    std::string_view name;
    PreTokenizer kind;
};
// Names of one pattern under which released files carry it.
constexpr std::array<Name, 8> kNames = {{
    {"gpt-2", PreTokenizer::gpt2},
    {"llama-bpe", PreTokenizer::llama3},
    {"llama3", PreTokenizer::llama3},
    {"llama-v3", PreTokenizer::llama3},
    {"falcon3", PreTokenizer::llama3},
    {"qwen2", PreTokenizer::qwen2},
    {"deepseek-r1-qwen", PreTokenizer::qwen2},
    {"qwen35", PreTokenizer::qwen35},
}};

}  // namespace

std::optional<PreTokenizer> pre_tokenizer_named(std::string_view name) {
    const auto* found = std::find_if(kNames.begin(), kNames.end(),
                                     [name](const Name& known) { return known.name == name; });
    return found == kNames.end() ? std::nullopt : std::optional(found->kind);
}

std::string_view pre_tokenizer_names() {
    return "gpt-2, llama-bpe (also llama3, llama-v3, falcon3), qwen2 (also deepseek-r1-qwen), "
           "qwen35";
}

std::string_view pattern_of(PreTokenizer kind) {
    switch (kind) {
        case PreTokenizer::gpt2:
            return R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
        case PreTokenizer::llama3:
            return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
                   R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
        case PreTokenizer::qwen2:
            return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
                   R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
        case PreTokenizer::qwen35:
            return R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N})"
                   R"(| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
    }
    return {};
}

std::size_t word_end(PreTokenizer kind, std::string_view text, std::size_t start) {
    const Reader reader(text);
    switch (kind) {
        case PreTokenizer::gpt2:
            return gpt2_end(reader, start);
        case PreTokenizer::llama3:
            return llama3_end(reader, start, {false, 3});
        case PreTokenizer::qwen2:
            return llama3_end(reader, start, {false, 1});
        case PreTokenizer::qwen35:
            return llama3_end(reader, start, {true, 1});
    }
    return text.size();
}

}  // namespace strata::serve
