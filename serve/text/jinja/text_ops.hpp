// Operations on marked text that filters and str methods share. All keep the mark of every
// character.
#pragma once

#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "serve/text/jinja/object.hpp"
#include "serve/text/unicode.hpp"

namespace strata::serve::jinja {

struct Span {
    std::size_t begin = 0;
    std::size_t end = 0;
};

enum class Side : std::uint8_t { both, left, right };

// What remains after taking characters off the ends: white space, or those of `characters`.
Span strip(Meter& meter, const Text& text, Side side, const Text* characters);
// Cut at runs of white space, or at each separator; from the left or from the right; at most
// `cuts_max` cuts, any number when negative. The separator is not empty.
std::vector<Span> split(Meter& meter, const Text& text, const Text* separator,
                        std::int64_t cuts_max, bool from_right);
std::vector<Span> split_lines(const Text& text, bool keep_ends);

TextPtr replace(Meter& meter, const Text& text, const Text& from, const Text& to,
                std::int64_t count);
TextPtr join(Meter& meter, const Text& separator, const Objects& items);

// Python's lower(), upper(), and title() of every word; capitalize() of the text.
TextPtr lower(Meter& meter, const Text& text);
TextPtr upper(Meter& meter, const Text& text);
TextPtr title(Meter& meter, const Text& text);
TextPtr capitalize(Meter& meter, const Text& text);
TextPtr swap_case(Meter& meter, const Text& text);

// Fills up to `width` code points; `left` of the missing ones stand before the text.
TextPtr pad(Meter& meter, const Text& text, std::int64_t width, std::string_view fill,
            Side text_side);
TextPtr reversed(Meter& meter, const Text& text);

// True when every character satisfies `belongs` and there is one.
bool all_characters(const Text& text, bool (*belongs)(char32_t));
bool is_upper_text(const Text& text);
bool is_lower_text(const Text& text);

Object slices(Meter& meter, const Text& text, const std::vector<Span>& spans);

}  // namespace strata::serve::jinja
