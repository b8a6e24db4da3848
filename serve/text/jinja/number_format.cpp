// Digits come from std::to_chars, so that no locale changes them.
#include "serve/text/jinja/number_format.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "serve/text/jinja/print.hpp"
#include "serve/text/unicode.hpp"

namespace strata::serve::jinja {
namespace {

std::string upper_ascii(std::string text) {
    for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
    return text;
}

std::string digits_of(std::uint64_t magnitude, int base) {
    std::array<char, 64> buffer{};
    const auto end =
        std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude, base).ptr;
    return {buffer.data(), end};
}

std::string grouped(const std::string& digits, char mark, std::size_t every) {
    std::string out;
    for (std::size_t i = 0; i < digits.size(); ++i) {
        if (i > 0 && (digits.size() - i) % every == 0) out += mark;
        out += digits[i];
    }
    return out;
}

std::string sign_text(bool negative, char sign) {
    if (negative) return "-";
    return sign == '-' ? "" : std::string(1, sign);
}

std::string real_digits(double magnitude, std::chars_format format, std::int64_t precision) {
    constexpr std::size_t kLongestIntegerPart = 320;
    std::string buffer(kLongestIntegerPart + static_cast<std::size_t>(precision) + 16, '\0');
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude, format,
                                   static_cast<int>(precision))
                         .ptr;
    buffer.resize(static_cast<std::size_t>(end - buffer.data()));
    return buffer;
}

// The digits without a sign; the type decides between fixed, scientific and the shorter of the two.
std::string magnitude_text(double magnitude, const FormatSpec& spec) {
    if (std::isnan(magnitude)) return "nan";
    if (std::isinf(magnitude)) return "inf";
    const char type = static_cast<char>(spec.type | 0x20);
    const std::int64_t precision = spec.precision < 0 ? 6 : spec.precision;
    if (type == 'f') return real_digits(magnitude, std::chars_format::fixed, precision);
    if (type == 'e') return real_digits(magnitude, std::chars_format::scientific, precision);
    if (spec.type == '%')
        return real_digits(magnitude * 100, std::chars_format::fixed, precision) + "%";
    if (spec.type == '\0' && spec.precision < 0) return format_real(magnitude);
    std::string out =
        real_digits(magnitude, std::chars_format::general, std::max<std::int64_t>(precision, 1));
    const bool whole = out.find_first_of(".e") == std::string::npos;
    return spec.type == '\0' && whole ? out + ".0" : out;
}

std::size_t take_number(std::string_view text, std::size_t at, std::int64_t& value) {
    const auto read = std::from_chars(text.data() + at, text.data() + text.size(), value);
    return static_cast<std::size_t>(read.ptr - text.data());
}

bool is_align(char c) {
    return c == '<' || c == '>' || c == '^' || c == '=';
}

}  // namespace

FormatSpec parse_spec(Meter& meter, std::string_view text) {
    FormatSpec spec;
    std::size_t at = 0;
    const auto next = [&] { return at < text.size() ? text[at] : '\0'; };
    const std::size_t first = text.empty() ? 0 : utf8_step(text, 0).bytes;
    if (first < text.size() && is_align(text[first])) {
        spec.fill = std::string(text.substr(0, first));
        spec.align = text[first];
        at = first + 1;
    } else if (is_align(next())) {
        spec.align = text[at++];
    }
    if (next() == '+' || next() == '-' || next() == ' ') spec.sign = text[at++];
    if (next() == '#') {
        spec.alternate = true;
        ++at;
    }
    if (next() == '0') {
        if (spec.align == '\0') {
            spec.fill = "0";
            spec.align = '=';
        }
        ++at;
    }
    at = take_number(text, at, spec.width);
    if (next() == ',' || next() == '_') spec.group = text[at++];
    if (next() == '.') {
        const std::size_t digits = at + 1;
        at = take_number(text, digits, spec.precision);
        if (at == digits) spec.precision = kPrecisionMax + 1;
    }
    if (at < text.size()) spec.type = text[at++];
    if (at < text.size() || spec.precision > kPrecisionMax || spec.width < 0) {
        meter.fail("the format '" + std::string(text.substr(0, 40)) + "' is not valid");
        return {};
    }
    return spec;
}

NumberText format_integer(Meter& meter, std::int64_t value, const FormatSpec& spec) {
    const bool negative = value < 0;
    const std::uint64_t magnitude =
        negative ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
    std::string prefix;
    std::string digits;
    switch (spec.type) {
        case '\0':
        case 'd':
        case 'n':
            digits = digits_of(magnitude, 10);
            break;
        case 'x':
        case 'X':
            digits = digits_of(magnitude, 16);
            prefix = "0x";
            break;
        case 'o':
            digits = digits_of(magnitude, 8);
            prefix = "0o";
            break;
        case 'b':
            digits = digits_of(magnitude, 2);
            prefix = "0b";
            break;
        default:
            meter.fail(std::string("an int has no format '") + spec.type + "'");
            return {};
    }
    if (spec.group != '\0')
        digits = grouped(digits, spec.group,
                         spec.type == '\0' || spec.type == 'd' || spec.type == 'n' ? 3 : 4);
    const std::string lead = sign_text(negative, spec.sign) + (spec.alternate ? prefix : "");
    const std::string all = lead + digits;
    return {spec.type == 'X' ? upper_ascii(all) : all, lead.size()};
}

NumberText format_float(Meter& meter, double value, const FormatSpec& spec) {
    constexpr std::string_view kTypes = "eEfFgGn%";
    if (spec.type != '\0' && kTypes.find(spec.type) == std::string_view::npos) {
        meter.fail(std::string("a float has no format '") + spec.type + "'");
        return {};
    }
    std::string digits = magnitude_text(std::fabs(value), spec);
    if (spec.group != '\0' && std::isfinite(value)) {
        const std::size_t whole = std::min(digits.find_first_of(".e%"), digits.size());
        digits = grouped(digits.substr(0, whole), spec.group, 3) + digits.substr(whole);
    }
    if (spec.type == 'E' || spec.type == 'F' || spec.type == 'G') digits = upper_ascii(digits);
    const std::string lead = sign_text(std::signbit(value) && !std::isnan(value), spec.sign);
    return {lead + digits, lead.size()};
}

void append_padded(TextBuilder& out, Meter& meter, const Text& text, std::size_t lead,
                   const FormatSpec& spec, char default_align) {
    const std::int64_t missing =
        std::max<std::int64_t>(spec.width - static_cast<std::int64_t>(text.code_points()), 0);
    if (!meter.fits_text(static_cast<std::size_t>(missing))) return;
    const char align = spec.align == '\0' ? default_align : spec.align;
    const std::int64_t before = align == '<' ? 0 : align == '^' ? missing / 2 : missing;
    const std::size_t kept = align == '=' ? lead : 0;
    out.append(text, 0, kept);
    for (std::int64_t i = 0; i < before; ++i) out.append(spec.fill);
    out.append(text, kept, text.size());
    for (std::int64_t i = before; i < missing; ++i) out.append(spec.fill);
}

void append_formatted(TextBuilder& out, Meter& meter, const Object& value, const FormatSpec& spec,
                      bool spec_given) {
    const bool real_type =
        std::string_view("eEfFgG%").find(spec.type) != std::string_view::npos && spec.type != '\0';
    if (value.is<double>() || (is_integral(value) && real_type)) {
        const NumberText number = format_float(meter, real_of(value), spec);
        return append_padded(out, meter, *make_text(meter, number.text).text(), number.lead, spec,
                             '>');
    }
    if (is_integral(value) && (spec_given || !value.is<bool>())) {
        const NumberText number = format_integer(meter, integer_of(value), spec);
        return append_padded(out, meter, *make_text(meter, number.text).text(), number.lead, spec,
                             '>');
    }
    if (spec_given && !value.text()) {
        meter.fail(std::string("a ") + type_name(value) + " takes no format");
        return;
    }
    if ((spec.type != '\0' && spec.type != 's') || spec.align == '=' || spec.sign != '-' ||
        spec.group != '\0') {
        meter.fail("the format is not one of a str");
        return;
    }
    const TextPtr text = to_text(meter, value);
    const std::size_t end = spec.precision < 0
                                ? text->size()
                                : text->offset_of(static_cast<std::size_t>(spec.precision));
    append_padded(out, meter, *make_slice(meter, *text, 0, end).text(), 0, spec, '<');
}

}  // namespace strata::serve::jinja
