// The lexer as a walk over the source with one cursor. Python's notion of white space applies.
#include "serve/text/jinja/lexer.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "serve/text/unicode.hpp"

namespace strata::serve::jinja {
namespace {

bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

bool is_word(char c) {
    return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c < 0;
}

// \r\n and \r become \n; one line end at the end of the source is not part of the template.
std::string normalized(std::string_view source) {
    std::string out;
    for (std::size_t i = 0; i < source.size(); ++i) {
        if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
        out += source[i] == '\r' ? '\n' : source[i];
    }
    if (out.ends_with('\n')) out.pop_back();
    return out;
}

class Lexer {
  public:
    explicit Lexer(std::string source) : source_(std::move(source)) {
        for (std::size_t i = 0; i < source_.size(); ++i) {
            if (source_[i] == '\n') lines_.push_back(i + 1);
        }
    }

    Result<std::vector<Token>> run() {
        while (at_ < source_.size()) {
            if (auto status = step(); !status) return status.failure();
        }
        emit(TokenType::end, source_.size(), "");
        return std::move(tokens_);
    }

  private:
    Status<> step() {
        const std::size_t tag = next_tag();
        if (tag == std::string::npos) {
            emit_text(source_.substr(at_));
            at_ = source_.size();
            return Done{};
        }
        const char kind = source_[tag + 1];
        const char sign =
            char_at(tag + 2) == '-' || char_at(tag + 2) == '+' ? char_at(tag + 2) : '\0';
        const std::size_t body = tag + (sign == '\0' ? 2 : 3);
        emit_text(stripped(at_, tag, sign, kind != '{'));
        at_ = body;
        line_starting_ = false;
        if (kind == '#') return skip_comment(tag);
        if (kind == '%') {
            if (const auto raw = raw_end(body)) return take_raw(tag, *raw);
        }
        emit(kind == '{' ? TokenType::variable_begin : TokenType::block_begin, tag, "");
        return take_tag(tag, kind == '{');
    }

    std::size_t next_tag() const {
        for (std::size_t i = source_.find('{', at_); i != std::string::npos;
             i = source_.find('{', i + 1)) {
            const char next = char_at(i + 1);
            if (next == '{' || next == '%' || next == '#') return i;
        }
        return std::string::npos;
    }

    // Source [from, to) before a tag, less what the tag's sign or lstrip_blocks takes away.
    std::string stripped(std::size_t from, std::size_t to, char sign, bool lstrip) const {
        std::string text = source_.substr(from, to - from);
        if (sign == '-') {
            text.resize(blank_start(text, 0));
        } else if (sign != '+' && lstrip) {
            const std::size_t line = text.rfind('\n') + 1;  // npos + 1 is 0
            if ((line > 0 || line_starting_) && blank_start(text, line) == line) text.resize(line);
        }
        return text;
    }

    // Where the white space at the end of the text begins, not before `floor`.
    static std::size_t blank_start(const std::string& text, std::size_t floor) {
        std::size_t end = text.size();
        while (end > floor) {
            std::size_t start = end - 1;
            while (start > floor && (static_cast<std::uint8_t>(text[start]) & 0xC0U) == 0x80U)
                --start;
            const Utf8Step step = utf8_step(text, start);
            if (step.kind != Utf8Kind::valid || !is_python_space(step.code)) break;
            end = start;
        }
        return end;
    }

    std::size_t skip_blanks(std::size_t at) const {
        while (at < source_.size()) {
            const Utf8Step step = utf8_step(source_, at);
            if (step.kind != Utf8Kind::valid || !is_python_space(step.code)) break;
            at += step.bytes;
        }
        return at;
    }

    // After the closing characters of a block or comment that begin at `close` with an optional
    // sign.
    std::size_t after_close(std::size_t close, char sign) {
        std::size_t end = close + (sign == '\0' ? 2 : 3);
        if (sign == '-') {
            end = skip_blanks(end);
        } else if (sign == '\0' && char_at(end) == '\n') {
            ++end;  // trim_blocks
        }
        line_starting_ = source_[end - 1] == '\n';
        return end;
    }

    Status<> skip_comment(std::size_t tag) {
        const std::size_t close = source_.find("#}", at_);
        if (close == std::string::npos)
            return refuse_at(position(tag), "the comment is not closed");
        const char before = close > at_ ? source_[close - 1] : '\0';
        const char sign = before == '-' || before == '+' ? before : '\0';
        at_ = after_close(sign == '\0' ? close : close - 1, sign);
        return Done{};
    }

    // The end of "raw" and its closing when the block at `body` is that.
    std::optional<std::size_t> raw_end(std::size_t body) const {
        std::size_t at = skip_blanks(body);
        if (source_.compare(at, 3, "raw") != 0) return std::nullopt;
        at = skip_blanks(at + 3);
        if (source_.compare(at, 3, "-%}") == 0) return skip_blanks(at + 3);
        if (source_.compare(at, 2, "%}") == 0) return at + 2;
        return std::nullopt;
    }

    Status<> take_raw(std::size_t tag, std::size_t begin) {
        line_starting_ = source_[begin - 1] == '\n';
        for (std::size_t open = source_.find("{%", begin); open != std::string::npos;
             open = source_.find("{%", open + 1)) {
            const char sign =
                char_at(open + 2) == '-' || char_at(open + 2) == '+' ? char_at(open + 2) : '\0';
            std::size_t at = skip_blanks(open + (sign == '\0' ? 2 : 3));
            if (source_.compare(at, 6, "endraw") != 0) continue;
            at = skip_blanks(at + 6);
            const char close = char_at(at) == '-' || char_at(at) == '+' ? char_at(at) : '\0';
            if (source_.compare(at + (close == '\0' ? 0 : 1), 2, "%}") != 0) continue;
            emit_text(stripped(begin, open, sign, true));
            at_ = after_close(at, close);
            return Done{};
        }
        return refuse_at(position(tag), "the raw block is not closed");
    }

    Status<> take_tag(std::size_t tag, bool variable) {
        const std::string_view close = variable ? "}}" : "%}";
        std::string open_brackets;
        while (true) {
            at_ = skip_blanks(at_);
            if (at_ >= source_.size()) {
                return refuse_at(position(tag),
                                 variable ? "'{{' is not closed" : "'{%' is not closed");
            }
            const char c = source_[at_];
            const bool signed_close =
                (c == '-' || (c == '+' && !variable)) && source_.compare(at_ + 1, 2, close) == 0;
            if (open_brackets.empty() && (signed_close || source_.compare(at_, 2, close) == 0)) {
                emit(variable ? TokenType::variable_end : TokenType::block_end, at_, "");
                at_ = variable ? after_variable(signed_close)
                               : after_close(at_, signed_close ? c : '\0');
                return Done{};
            }
            if (auto status = take_token(open_brackets); !status) return status;
        }
    }

    std::size_t after_variable(bool minus) {
        const std::size_t end = minus ? skip_blanks(at_ + 3) : at_ + 2;
        line_starting_ = source_[end - 1] == '\n';
        return end;
    }

    Status<> take_token(std::string& open_brackets) {
        const char c = source_[at_];
        if (is_digit(c)) return take_number();
        if (c == '"' || c == '\'') return take_string(c);
        if (is_word(c)) {
            std::size_t end = at_;
            while (end < source_.size() && is_word(source_[end])) ++end;
            emit(TokenType::name, at_, source_.substr(at_, end - at_));
            at_ = end;
            return Done{};
        }
        return take_symbol(open_brackets);
    }

    Status<> take_symbol(std::string& open_brackets) {
        constexpr std::array<std::string_view, 6> kDouble = {"//", "**", "==", "!=", ">=", "<="};
        constexpr std::string_view kSingle = "+-/*%~[](){}><=.:|,;";
        const std::string two = source_.substr(at_, 2);
        const bool pair = std::find(kDouble.begin(), kDouble.end(), two) != kDouble.end();
        const char c = source_[at_];
        if (!pair && kSingle.find(c) == std::string_view::npos) {
            return refuse_at(position(at_), std::string("unexpected character '") + c + "'");
        }
        if (c == '(' || c == '[' || c == '{')
            open_brackets += c == '(' ? ')' : c == '[' ? ']' : '}';
        if (c == ')' || c == ']' || c == '}') {
            if (open_brackets.empty())
                return refuse_at(position(at_), std::string("unexpected '") + c + "'");
            if (open_brackets.back() != c) {
                return refuse_at(position(at_), std::string("unexpected '") + c + "', expected '" +
                                                    open_brackets.back() + "'");
            }
            open_brackets.pop_back();
        }
        emit(TokenType::symbol, at_, pair ? two : std::string(1, c));
        at_ += pair ? 2 : 1;
        return Done{};
    }

    // Digits with single underscores between them.
    std::size_t digits_end(std::size_t at, bool (*belongs)(char)) const {
        while (at < source_.size() && belongs(source_[at])) {
            ++at;
            if (char_at(at) == '_' && belongs(char_at(at + 1))) ++at;
        }
        return at;
    }

    Status<> take_number() {
        const std::size_t begin = at_;
        const char base = static_cast<char>(char_at(at_ + 1) | 0x20);
        if (source_[at_] == '0' && (base == 'x' || base == 'o' || base == 'b')) {
            const std::size_t first = at_ + (char_at(at_ + 2) == '_' ? 3 : 2);
            const std::size_t end = digits_end(first, [](char c) {
                return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
            });
            return end_number(TokenType::integer, begin, end);
        }
        std::size_t end = digits_end(at_, is_digit);
        bool real = false;
        const bool after_dot = begin > 0 && source_[begin - 1] == '.';
        if (!after_dot && char_at(end) == '.' && is_digit(char_at(end + 1))) {
            end = digits_end(end + 1, is_digit);
            real = true;
        }
        if (!after_dot && (char_at(end) | 0x20) == 'e') {
            const std::size_t exponent =
                end + (char_at(end + 1) == '-' || char_at(end + 1) == '+' ? 2 : 1);
            if (is_digit(char_at(exponent))) {
                end = digits_end(exponent, is_digit);
                real = true;
            }
        }
        return end_number(real ? TokenType::real : TokenType::integer, begin, end);
    }

    Status<> end_number(TokenType type, std::size_t begin, std::size_t end) {
        std::string digits = source_.substr(begin, end - begin);
        std::erase(digits, '_');
        emit(type, begin, digits);
        at_ = end;
        return Done{};
    }

    Status<> take_string(char quote) {
        const std::size_t begin = at_;
        std::string value;
        ++at_;
        while (at_ < source_.size() && source_[at_] != quote) {
            if (source_[at_] != '\\') {
                value += source_[at_++];
            } else if (!take_escape(value)) {
                return refuse_at(position(at_), "an escape in the string is not valid");
            }
        }
        if (at_ >= source_.size()) return refuse_at(position(begin), "the string is not closed");
        ++at_;
        emit(TokenType::string, begin, value);
        return Done{};
    }

    // Python's escapes, from the backslash at the cursor; false when one is broken.
    bool take_escape(std::string& value) {
        const char c = char_at(at_ + 1);
        constexpr std::string_view kNames = "abfnrtv\\'\"";
        constexpr std::string_view kValues = "\a\b\f\n\r\t\v\\'\"";
        if (const std::size_t simple = kNames.find(c);
            c != '\0' && simple != std::string_view::npos) {
            value += kValues[simple];
            at_ += 2;
            return true;
        }
        if (c == '\n') {  // a continued line
            at_ += 2;
            return true;
        }
        if (c >= '0' && c <= '7') return take_code(value, at_ + 1, 1, 3, 8);
        if (c == 'x') return take_code(value, at_ + 2, 2, 2, 16);
        if (c == 'u') return take_code(value, at_ + 2, 4, 4, 16);
        if (c == 'U') return take_code(value, at_ + 2, 8, 8, 16);
        if (c == 'N' || at_ + 1 >= source_.size()) return false;
        value += '\\';  // unknown escapes stay as they are
        ++at_;
        return true;
    }

    bool take_code(std::string& value, std::size_t first, std::size_t least, std::size_t most,
                   unsigned base) {
        char32_t code = 0;
        std::size_t count = 0;
        for (; count < most; ++count) {
            const char c = char_at(first + count);
            const char low = static_cast<char>(c | 0x20);
            const unsigned digit = is_digit(c) ? static_cast<unsigned>(c - '0')
                                   : low >= 'a' && low <= 'f'
                                       ? static_cast<unsigned>(low - 'a') + 10
                                       : base;
            if (digit >= base) break;
            code = code * base + digit;
        }
        const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
        if (count < least || code > 0x10FFFF || surrogate) return false;
        append_utf8(value, code);
        at_ = first + count;
        return true;
    }

    char char_at(std::size_t at) const { return at < source_.size() ? source_[at] : '\0'; }

    Position position(std::size_t at) const {
        const auto after = std::upper_bound(lines_.begin(), lines_.end(), at);
        return {static_cast<std::uint32_t>(after - lines_.begin()),
                static_cast<std::uint32_t>(at - *(after - 1) + 1)};
    }

    void emit(TokenType type, std::size_t at, std::string value) {
        tokens_.push_back({type, position(at), std::move(value)});
    }
    void emit_text(std::string text) {
        if (!text.empty()) emit(TokenType::text, at_, std::move(text));
    }

    std::string source_;
    std::vector<std::size_t> lines_ = {0};  // where each line begins
    std::vector<Token> tokens_;
    std::size_t at_ = 0;
    bool line_starting_ = true;  // the last match ended a line: lstrip_blocks may apply
};

}  // namespace

Failure<Refusal> refuse_at(Position at, const std::string& message) {
    return refuse("line " + std::to_string(at.line) + ", column " + std::to_string(at.column) +
                  ": " + message);
}

Result<std::vector<Token>> tokenize(std::string_view source) {
    if (source.size() > kSourceBytesMax) {
        return refuse("the template has " + std::to_string(source.size()) + " bytes, allowed are " +
                      std::to_string(kSourceBytesMax));
    }
    return Lexer(normalized(source)).run();
}

}  // namespace strata::serve::jinja
