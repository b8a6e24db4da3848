// Numbers under Python's format specifications; one description for "%5.2f" and for "{:>5.2f}".
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "serve/text/jinja/object.hpp"

namespace strata::serve::jinja {

struct FormatSpec {
    std::string fill = " ";  // one character
    char align = '\0';       // < > ^ =, '\0': the type's own
    char sign = '-';         // - + or space
    bool alternate = false;
    std::int64_t width = 0;
    char group = '\0';  // , or _
    std::int64_t precision = -1;
    char type = '\0';
};

// A format that asks for more digits than this is refused.
inline constexpr std::int64_t kPrecisionMax = 1000;

// [[fill]align][sign][#][0][width][group][.precision][type]; fails for anything else.
FormatSpec parse_spec(Meter& meter, std::string_view text);

// Sign, prefix and digits of a number, not yet padded; the sign and prefix are `lead` bytes.
struct NumberText {
    std::string text;
    std::size_t lead = 0;
};
NumberText format_integer(Meter& meter, std::int64_t value, const FormatSpec& spec);
NumberText format_float(Meter& meter, double value, const FormatSpec& spec);

// Appends the text padded to the width; `lead` bytes stay before a fill that is aligned '='.
void append_padded(TextBuilder& out, Meter& meter, const Text& text, std::size_t lead,
                   const FormatSpec& spec, char default_align);

// format(value, spec) of a str, int, bool, float or None.
void append_formatted(TextBuilder& out, Meter& meter, const Object& value, const FormatSpec& spec,
                      bool spec_given);

}  // namespace strata::serve::jinja
