// The scanners of gpt-2, llama-bpe, qwen2, qwen35, o200k and tekken. Each tries the alternatives of
// its pattern in their order; comments name them as printed there.
#include "serve/text/words/scanners.hpp"

namespace strata::serve::words {
namespace {

// [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
bool is_head(Class kind) {
    return kind == Class::upper || kind == Class::letter || kind == Class::mark;
}
// [\p{Ll}\p{Lm}\p{Lo}\p{M}]
bool is_tail(Class kind) {
    return kind == Class::lower || kind == Class::letter || kind == Class::mark;
}

// head*tail+ ; `body` when it does not match. Letters without case are both: where no small letter
// follows the run of heads, the last of them that is a tail as well ends the word.
std::size_t head_tail_end(const Reader& reader, std::size_t body) {
    std::size_t tail_end = body;
    std::size_t position = body;
    Char c = reader.at(position);
    for (; c.bytes != 0 && is_head(c.kind); c = reader.at(position)) {
        position += c.bytes;
        if (is_tail(c.kind)) tail_end = position;
    }
    return c.kind == Class::lower ? reader.run(position, is_tail) : tail_end;
}

// head+tail* ; `body` when it does not match.
std::size_t heads_end(const Reader& reader, std::size_t body) {
    const std::size_t end = reader.run(body, is_head);
    return end > body ? reader.run(end, is_tail) : body;
}

// [^\r\n\p{L}\p{N}]
bool may_lead(const Char& c) {
    return c.bytes != 0 && c.kind != Class::line_end && c.kind != Class::number &&
           !is_letter(c.kind);
}

}  // namespace

std::size_t gpt2_end(const Reader& reader, std::size_t start) {
    if (const std::size_t end = contraction_end(reader, start, false)) return end;
    const std::size_t body = reader.at(start).code == ' ' ? start + 1 : start;
    const Char first = reader.at(body);
    // ` ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+`
    if (is_letter(first.kind)) return reader.run(body, is_letter);
    if (first.kind == Class::number) {
        return reader.run(body, [](Class kind) { return kind == Class::number; });
    }
    if (first.bytes != 0 && is_sign(first.kind)) return reader.run(body, is_sign);
    return plain_blanks_end(reader, start);
}

std::size_t gpt2_digits_end(std::string_view text, std::size_t start) {
    const Char first = Reader(text).at(start);
    if (first.kind == Class::number) return start + first.bytes;
    return gpt2_end(Reader(text, Border::number), start);
}

std::size_t letters_end(const Reader& reader, std::size_t start, LetterRules rules) {
    if (const std::size_t end = contraction_end(reader, start, true)) return end;
    const auto in_word = [rules](Class kind) {
        return is_letter(kind) || (rules.marks_join && kind == Class::mark);
    };
    const Char first = reader.at(start);
    // `[^\r\n\p{L}\p{N}]?\p{L}+`: a mark that joins words is its own leading character as well.
    if (in_word(first.kind)) return reader.run(start, in_word);
    if (may_lead(first)) {
        const std::size_t body = start + first.bytes;
        const std::size_t end = reader.run(body, in_word);
        if (end > body) return end;
    }
    if (first.kind == Class::number) return numbers_end(reader, start, rules.digits_max);
    // ` ?[^\s\p{L}\p{N}]+[\r\n]*`
    const std::size_t body = first.code == ' ' ? start + 1 : start;
    const std::size_t end = reader.run(body, [rules](Class kind) {
        return is_sign(kind) && !(rules.marks_join && kind == Class::mark);
    });
    if (end > body) return reader.run(end, [](Class kind) { return kind == Class::line_end; });
    return blanks_end(reader, start);
}

std::size_t cased_end(const Reader& reader, std::size_t start, CasedRules rules) {
    const Char first = reader.at(start);
    const auto with_contraction = [&](std::size_t end) {
        const std::size_t longer = rules.contractions ? contraction_end(reader, end, true) : 0;
        return longer != 0 ? longer : end;
    };
    // Each of the two kinds of words with its leading character first, then without.
    const std::size_t after = start + first.bytes;
    for (const auto word_end : {head_tail_end, heads_end}) {
        if (may_lead(first)) {
            if (const std::size_t end = word_end(reader, after); end > after) {
                return with_contraction(end);
            }
        }
        if (const std::size_t end = word_end(reader, start); end > start) {
            return with_contraction(end);
        }
    }
    if (first.kind == Class::number) return numbers_end(reader, start, rules.digits_max);
    // ` ?[^\s\p{L}\p{N}]+[\r\n/]*`
    const std::size_t body = first.code == ' ' ? start + 1 : start;
    if (const std::size_t end = reader.run(body, is_sign); end > body) {
        return reader.run_of(
            end, [](const Char& c) { return c.kind == Class::line_end || c.code == '/'; });
    }
    return blanks_end(reader, start);
}

}  // namespace strata::serve::words
