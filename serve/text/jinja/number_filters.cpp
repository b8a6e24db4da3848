// Filters that make or change numbers.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <string>

#include "serve/text/jinja/library.hpp"
#include "serve/text/jinja/operators.hpp"
#include "serve/text/jinja/text_ops.hpp"

namespace strata::serve::jinja {
namespace {

// The characters of a number in a text: white space around it gone, single underscores between
// digits too.
std::string number_text(Meter& meter, const Text& text) {
    constexpr std::size_t kNumberBytesMax = 400;
    const Span span = strip(meter, text, Side::both, nullptr);
    const std::string_view body =
        text.bytes().substr(span.begin, std::min(span.end - span.begin, kNumberBytesMax));
    std::string out;
    const auto digit = [&](std::size_t i) {
        return i < body.size() && body[i] >= '0' && body[i] <= '9';
    };
    for (std::size_t i = 0; i < body.size(); ++i) {
        if (body[i] == '_' && i > 0 && digit(i - 1) && digit(i + 1)) continue;
        out += body[i];
    }
    return out;
}

std::optional<double> read_float(const std::string& text) {
    std::string body = text;
    if (body.starts_with('+')) body.erase(0, 1);
    if (body.starts_with('+') || body.find_first_of("xXpP(") != std::string::npos)
        return std::nullopt;
    double value = 0;
    const auto read = std::from_chars(body.data(), body.data() + body.size(), value);
    if (body.empty() || read.ptr != body.data() + body.size()) return std::nullopt;
    if (read.ec == std::errc::result_out_of_range) {
        const bool tiny =
            body.find("e-") != std::string::npos || body.find("E-") != std::string::npos;
        const double huge = tiny ? 0.0 : HUGE_VAL;
        return body.starts_with('-') ? -huge : huge;
    }
    return read.ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<std::int64_t> read_int(Meter& meter, const std::string& text, int base) {
    std::string body = text;
    const bool negative = body.starts_with('-');
    if (negative || body.starts_with('+')) body.erase(0, 1);
    const std::string prefix = base == 16 ? "0x" : base == 8 ? "0o" : base == 2 ? "0b" : "";
    if (!prefix.empty() && body.size() > 2 && body[0] == '0' && (body[1] | 0x20) == prefix[1])
        body.erase(0, 2);
    if (body.starts_with('-')) return std::nullopt;
    std::int64_t value = 0;
    const auto read = std::from_chars(body.data(), body.data() + body.size(), value, base);
    if (body.empty() || read.ptr != body.data() + body.size()) return std::nullopt;
    if (read.ec == std::errc::result_out_of_range) meter.fail("the integer does not fit 64 bits");
    return negative ? -value : value;
}

Object truncated(Meter& meter, double value, const Object& fallback) {
    if (std::isnan(value)) return fallback;
    if (!(std::fabs(value) < 9.2e18)) {
        meter.fail("the integer does not fit 64 bits");
        return {};
    }
    return static_cast<std::int64_t>(value);
}

Object filter_int(Meter& meter, const Object& input, const Bound& arguments) {
    const Object fallback = arguments[0] != nullptr ? *arguments[0] : Object(std::int64_t{0});
    if (!defined(meter, input)) return {};
    if (is_integral(input)) return integer_of(input);
    if (const auto* real = input.as<double>()) return truncated(meter, *real, fallback);
    const Text* text = input.text();
    if (text == nullptr) return fallback;
    const std::int64_t base = integer_or(meter, arguments[1], 10);
    if (base < 2 || base > 36) {
        meter.fail("the base of int is 2 to 36");
        return {};
    }
    const std::string body = number_text(meter, *text);
    if (const auto value = read_int(meter, body, static_cast<int>(base))) return *value;
    const auto real = read_float(body);
    return real ? truncated(meter, *real, fallback) : fallback;
}

Object filter_float(Meter& meter, const Object& input, const Bound& arguments) {
    const Object fallback = arguments[0] != nullptr ? *arguments[0] : Object(0.0);
    if (!defined(meter, input)) return {};
    if (is_numeric(input)) return real_of(input);
    const auto value = input.text() ? read_float(number_text(meter, *input.text())) : std::nullopt;
    return value ? Object(*value) : fallback;
}

// Python's round(): the decimal digits are rounded, halves to even where they are exact.
double round_half_even(double value, std::int64_t precision) {
    if (!std::isfinite(value) || precision > 320) return value;
    if (precision < 0) {
        const double scale =
            std::pow(10.0, static_cast<double>(std::min<std::int64_t>(-precision, 320)));
        return std::isinf(scale) ? 0.0 : std::nearbyint(value / scale) * scale;
    }
    std::string buffer(700, '\0');
    const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                   std::chars_format::fixed, static_cast<int>(precision))
                         .ptr;
    double rounded = value;
    std::from_chars(buffer.data(), end, rounded);
    return rounded;
}

Object filter_round(Meter& meter, const Object& input, const Bound& arguments) {
    const std::int64_t precision = integer_or(meter, arguments[0], 0);
    const TextPtr method = arguments[1] != nullptr ? text_or_empty(meter, arguments[1]) : nullptr;
    if (!defined(meter, input)) return {};
    if (!is_numeric(input)) {
        meter.fail(std::string("round needs a number, not ") + type_name(input));
        return {};
    }
    if (!method || method->bytes() == "common") {
        if (is_integral(input) && precision >= 0) return integer_of(input);
        const double rounded = round_half_even(real_of(input), precision);
        return is_integral(input) ? truncated(meter, rounded, {}) : Object(rounded);
    }
    if (method->bytes() != "ceil" && method->bytes() != "floor") {
        meter.fail("the method of round is common, ceil or floor");
        return {};
    }
    const double scale = std::pow(10.0, static_cast<double>(precision));
    const double scaled = real_of(input) * scale;
    return (method->bytes() == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale;
}

Object filter_abs(Meter& meter, const Object& input, const Bound&) {
    if (const auto* real = input.as<double>()) return std::fabs(*real);
    if (is_integral(input))
        return integer_of(input) < 0 ? apply_sign(meter, input, true) : Object(integer_of(input));
    if (defined(meter, input))
        meter.fail(std::string("abs needs a number, not ") + type_name(input));
    return {};
}

constexpr Function kNumberFilters[] = {
    {"int", {0, {"default", "base"}}, filter_int},
    {"float", {0, {"default"}}, filter_float},
    {"round", {0, {"precision", "method"}}, filter_round},
    {"abs", {}, filter_abs},
};

}  // namespace

const Function* find_number_filter(std::string_view name) {
    const auto* found = std::find_if(std::begin(kNumberFilters), std::end(kNumberFilters),
                                     [name](const Function& f) { return f.name == name; });
    return found == std::end(kNumberFilters) ? nullptr : found;
}

}  // namespace strata::serve::jinja
