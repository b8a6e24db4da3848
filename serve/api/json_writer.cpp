// JSON text by appending; escapes after RFC 8259 section 7.
#include "serve/api/json_writer.hpp"

#include <array>
#include <charconv>
#include <cmath>

namespace strata::serve {

namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// Length of the valid UTF-8 sequence at `at`, 0 when there is none (RFC 3629: no overlong forms, no
// surrogates, nothing above U+10FFFF).
std::size_t sequence_length(std::string_view text, std::size_t at) {
    const auto byte = [&](std::size_t i) {
        return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
    };
    const auto tail = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
    const unsigned first = byte(0);
    if (first < 0x80U) return 1;
    if (first >= 0xC2U && first <= 0xDFU) return tail(1) ? 2 : 0;
    if (first >= 0xE0U && first <= 0xEFU) {
        const unsigned second = byte(1);
        const bool good =
            !(first == 0xE0U && second < 0xA0U) && !(first == 0xEDU && second > 0x9FU);
        return good && tail(1) && tail(2) ? 3 : 0;
    }
    if (first >= 0xF0U && first <= 0xF4U) {
        const unsigned second = byte(1);
        const bool good =
            !(first == 0xF0U && second < 0x90U) && !(first == 0xF4U && second > 0x8FU);
        return good && tail(1) && tail(2) && tail(3) ? 4 : 0;
    }
    return 0;
}

void append_escaped(std::string& out, char c) {
    switch (c) {
        case '"':
            out += "\\\"";
            return;
        case '\\':
            out += "\\\\";
            return;
        case '\n':
            out += "\\n";
            return;
        case '\r':
            out += "\\r";
            return;
        case '\t':
            out += "\\t";
            return;
        default:
            break;
    }
    constexpr std::string_view kHex = "0123456789abcdef";
    const auto code = static_cast<unsigned char>(c);
    out += "\\u00";
    out += kHex[code >> 4U];
    out += kHex[code & 15U];
}

bool plain(char c) {
    const auto code = static_cast<unsigned char>(c);
    return code >= 0x20 && code < 0x7F && c != '"' && c != '\\';
}

template <class T>
void append_number(std::string& out, T value) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
    out.append(digits.data(), end);
}

}  // namespace

void JsonWriter::comma() {
    if (after_value_) text_ += ',';
    after_value_ = true;
}

JsonWriter& JsonWriter::begin_object() {
    comma();
    text_ += '{';
    after_value_ = false;
    return *this;
}

JsonWriter& JsonWriter::end_object() {
    text_ += '}';
    after_value_ = true;
    return *this;
}

JsonWriter& JsonWriter::begin_array() {
    comma();
    text_ += '[';
    after_value_ = false;
    return *this;
}

JsonWriter& JsonWriter::end_array() {
    text_ += ']';
    after_value_ = true;
    return *this;
}

JsonWriter& JsonWriter::key(std::string_view name) {
    string(name);
    text_ += ':';
    after_value_ = false;
    return *this;
}

JsonWriter& JsonWriter::string(std::string_view text) {
    comma();
    text_ += '"';
    std::size_t at = 0;
    while (at < text.size()) {
        std::size_t run = at;
        while (run < text.size() && plain(text[run])) ++run;
        text_.append(text, at, run - at);
        at = run;
        if (at == text.size()) break;
        const std::size_t length = sequence_length(text, at);
        if (length == 0) {
            text_ += kReplacement;
            ++at;
        } else if (length == 1) {
            append_escaped(text_, text[at++]);
        } else {
            text_.append(text, at, length);
            at += length;
        }
    }
    text_ += '"';
    return *this;
}

JsonWriter& JsonWriter::integer(std::int64_t value) {
    comma();
    append_number(text_, value);
    return *this;
}

JsonWriter& JsonWriter::unsigned_integer(std::uint64_t value) {
    comma();
    append_number(text_, value);
    return *this;
}

JsonWriter& JsonWriter::number(double value, int decimals) {
    if (!std::isfinite(value)) return null();
    comma();
    std::array<char, 352> digits{};  // the longest fixed form of a double and its decimals
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value,
                                   std::chars_format::fixed, decimals);
    std::string_view shown(digits.data(), static_cast<std::size_t>(end.ptr - digits.data()));
    if (decimals > 0) {
        shown = shown.substr(0, shown.find_last_not_of('0') + 1);
        if (shown.ends_with('.')) shown.remove_suffix(1);
    }
    text_ += shown == "-0" ? "0" : shown;
    return *this;
}

JsonWriter& JsonWriter::boolean(bool value) {
    comma();
    text_ += value ? "true" : "false";
    return *this;
}

JsonWriter& JsonWriter::null() {
    comma();
    text_ += "null";
    return *this;
}

JsonWriter& JsonWriter::raw(std::string_view json) {
    comma();
    text_ += json;
    return *this;
}

}  // namespace strata::serve
