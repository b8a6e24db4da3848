// Fields of a line: the only code that splits a line and the only code that turns values into text.
// It knows the grammar (PROTOCOL.md, "Grammar"), not a single line. Numbers go through
// std::from_chars and std::to_chars, so that no locale can put a comma into them.
//
// FieldReader keeps the first fault and goes on doing nothing; finish() hands out the struct or the
// fault. FieldWriter cannot fail: what would break the line is replaced (values) or escaped (free
// text).
#pragma once

#include <array>
#include <charconv>
#include <cmath>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "protocol/err_line.hpp"

namespace strata::protocol {

inline constexpr std::size_t kFieldsMax = 256;      // DONE, the longest, has fewer than 50
inline constexpr std::size_t kValueBytesMax = 256;  // of a text value: names, words, a SHA-256
inline constexpr std::size_t kTextBytesMax =
    4096;  // of free text: a sentence, or a path (PATH_MAX)

template <class T>
concept Number = (std::integral<T> || std::floating_point<T>)&&!std::same_as<T, bool>;

// The numbers that are allowed; figures and counts are >= 0 unless a line says otherwise.
template <Number T>
struct Range {
    T low = T{0};
    T high = std::numeric_limits<T>::max();
    bool low_open = false;  // low itself is not allowed
};
template <std::floating_point T>
inline constexpr Range<T> kAnyFinite{.low = std::numeric_limits<T>::lowest()};

// One word of the wire. A table of them lives in the file of the line that owns the enum.
template <class E>
struct Word {
    E value;
    std::string_view word;
};
template <class E, std::size_t N>
using WordTable = std::array<Word<E>, N>;

template <class E, std::size_t N>
constexpr std::string_view word_in(const WordTable<E, N>& table, E value) {
    for (const Word<E>& entry : table) {
        if (entry.value == value) return entry.word;
    }
    return {};
}

template <class E, std::size_t N>
constexpr std::optional<E> value_in(const WordTable<E, N>& table, std::string_view word) {
    for (const Word<E>& entry : table) {
        if (entry.word == word) return entry.value;
    }
    return std::nullopt;
}

// The word that a line begins with; empty for a blank line.
std::string_view verb_of(std::string_view line);

// The value of `id=` if the line has exactly one and it is a number, else 0. Works on broken lines.
std::uint64_t readable_id(std::string_view line);

// A piece of a refused line for an error text: short, printable, in quotes.
std::string quoted(std::string_view piece);

// `text` cut to at most `bytes_max` bytes, not inside a UTF-8 sequence.
std::string_view cut_text(std::string_view text, std::size_t bytes_max);

// UTF-8 sequences in `text`; a stray byte counts as one.
std::size_t count_characters(std::string_view text);

// The whole of `text` as a number: no sign +, no spaces, nothing behind it, finite, no overflow.
template <Number T>
bool read_number(std::string_view text, T& out) {
    T number{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    if (error != std::errc{} || stop != end) return false;
    if constexpr (std::floating_point<T>) {
        if (!std::isfinite(number)) return false;
    }
    out = number;
    return true;
}

// The shortest text that reads back as the same number.
template <Number T>
void append_number(std::string& out, T number) {
    std::array<char, 64> room{};
    const auto written = std::to_chars(room.data(), room.data() + room.size(), number);
    out.append(room.data(), written.ptr);
}

// What is allowed, in words.
template <Number T>
std::string range_words(const Range<T>& range) {
    std::string out = std::integral<T> ? "an integer" : "a number";
    if (range.low != std::numeric_limits<T>::lowest()) {
        out += range.low_open ? " above " : " from ";
        append_number(out, range.low);
    }
    if (range.high != std::numeric_limits<T>::max()) {
        out += " up to ";
        append_number(out, range.high);
    }
    return out;
}

class FieldReader {
  public:
    // Splits `line`, which must begin with `verb`. The views point into `line`.
    FieldReader(std::string_view line, std::string_view verb);

    // Positional fields behind the verb, counted from 1.
    std::size_t positions() const { return positional_.size(); }
    std::string_view position_text(std::size_t index) const { return positional_[index - 1]; }

    // A positional field that must be there. `what` is its name in an error.
    template <Number T>
    void position(std::size_t index, std::string_view what, T& out, Range<T> range = {}) {
        if (has_position(index, what)) number(what, position_text(index), out, range);
    }
    void position(std::size_t index, std::string_view what, bool& out);
    // True if the field is there; else that is the fault.
    bool has_position(std::size_t index, std::string_view what);
    template <class E, std::size_t N>
    void position_word(std::size_t index, std::string_view what, E& out,
                       const WordTable<E, N>& table) {
        if (!has_position(index, what)) return;
        const std::optional<E> value = value_in(table, position_text(index));
        if (value) {
            out = *value;
            return;
        }
        std::string words = "one of";
        for (const Word<E>& entry : table) words.append(" ").append(entry.word);
        refuse_value(what, position_text(index), words);
    }

    // A name that may be missing: then `out` stays as it is.
    template <Number T>
    void named(std::string_view name, T& out, Range<T> range = {}) {
        if (const auto text = value_of(name)) number(name, *text, out, range);
    }
    void named(std::string_view name, bool& out);
    void named(std::string_view name, std::string& out);
    template <class T>
    void named(std::string_view name, std::optional<T>& out) {
        T value{};
        if (!value_of(name)) return;
        named(name, value);
        if (!fault_) out = std::move(value);
    }
    template <std::floating_point T>
    void named(std::string_view name, std::optional<T>& out, Range<T> range) {
        T value{};
        if (!value_of(name)) return;
        named(name, value, range);
        if (!fault_) out = value;
    }
    // A word that this reader does not know is absent: a newer writer has more of them.
    template <class E>
    void named_word(std::string_view name, std::optional<E>& out,
                    std::optional<E> (*lookup)(std::string_view)) {
        if (const auto text = value_of(name)) out = lookup(*text);
    }
    std::optional<std::string_view> value_of(std::string_view name) const;

    // A comma list of token ids.
    void token_ids(std::string_view what, std::string_view list, std::vector<std::int32_t>& out);

    // The free text behind `name=`, unescaped and cut to kTextBytesMax; `out` stays if there is
    // none.
    void text(std::string_view name, std::string& out) const;

    // The bare field behind the names, if there is one. Only GEN takes it; untaken it is a fault.
    std::optional<std::string_view> take_last() { return std::exchange(last_, std::nullopt); }

    void refuse(ErrCode code, std::string text);
    void refuse_value(std::string_view what, std::string_view value, std::string_view allowed);

    template <class T>
    Parsed<T> finish(T value) {
        if (last_) refuse(ErrCode::bad_line, "bare field " + quoted(*last_) + " behind the names");
        if (fault_) return Failure<ParseError>{*std::move(fault_)};
        return value;
    }

  private:
    struct Named {
        std::string_view name;
        std::string_view value;
    };

    void split(std::string_view rest);
    void add(std::string_view field);
    void flag(std::string_view what, std::string_view text, bool& out);
    template <Number T>
    void number(std::string_view what, std::string_view text, T& out, const Range<T>& range) {
        T value{};
        const bool allowed = read_number(text, value) && value >= range.low &&
                             value <= range.high && !(range.low_open && value == range.low);
        if (allowed) {
            out = value;
        } else {
            refuse_value(what, text, range_words(range));
        }
    }

    std::string_view line_;
    std::string_view verb_;
    std::vector<std::string_view> positional_;
    std::vector<Named> named_;
    std::optional<std::string_view> last_;
    std::optional<Named> free_text_;
    std::optional<ParseError> fault_;
};

class FieldWriter {
  public:
    explicit FieldWriter(std::string_view verb) : out_(verb) {}

    template <Number T>
    void put(T number) {
        out_ += ' ';
        append_number(out_, number);
    }
    void put(bool flag) { out_ += flag ? " 1" : " 0"; }
    void put(std::string_view word);  // a word of a table
    // A measured figure with one decimal. One that is negative or not finite is written as 0: a
    // rate over no time must not make a line unreadable.
    void put_tenths(double figure);

    template <Number T>
    void name(std::string_view name, T number) {
        begin(name);
        append_number(out_, number);
    }
    void name(std::string_view name, bool flag);
    // Spaces and control characters become '_', more than kValueBytesMax is cut, empty is not
    // written.
    void name(std::string_view name, std::string_view text);
    void name(std::string_view name, const std::string& text) {
        this->name(name, std::string_view(text));
    }
    template <class T>
    void name(std::string_view name, const std::optional<T>& value) {
        if (value) this->name(name, *value);
    }
    void name_tenths(std::string_view name, const std::optional<double>& figure);
    template <class E>
    void name_word(std::string_view name, const std::optional<E>& value) {
        if (value) this->name(name, word(*value));
    }

    // Comma lists of token ids: bare, or behind a name when there are any.
    void put_ids(const std::vector<std::int32_t>& ids);
    void name_ids(std::string_view name, const std::vector<std::int32_t>& ids);
    // A list that its line has put together: not cut, not written when empty.
    void name_list(std::string_view name, std::string_view list);

    // The line's last field. Cut to kTextBytesMax; control characters and backslashes are escaped.
    void text(std::string_view name, std::string_view text);

    std::string take() { return std::move(out_); }

  private:
    void begin(std::string_view name);
    void append_ids(const std::vector<std::int32_t>& ids);

    std::string out_;
};

// `figure` as a line may carry it: finite and >= 0, else 0.
double readable_figure(double figure);

}  // namespace strata::protocol
