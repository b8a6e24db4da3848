// Text in lines of bounded width, as the --help of both programs shows it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

namespace strata {

inline constexpr std::size_t kHelpColumnsMax = 80;    // what every terminal has
inline constexpr std::size_t kHelpIndentColumns = 6;  // of an option's text, under its name

// The words of `text`, each line of at most `columns_max` bytes with `indent` spaces before it and
// LF behind it, as full as it gets. Words are what spaces part; a word that is longer than a line
// has one to itself. No words: no lines.
[[nodiscard]] inline std::string wrapped(std::string_view text,
                                         std::size_t indent = kHelpIndentColumns,
                                         std::size_t columns_max = kHelpColumnsMax) {
    const std::string margin(indent, ' ');
    std::string out;
    std::string line;
    while (true) {
        text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
        if (text.empty()) break;
        const std::string_view word = text.substr(0, text.find(' '));
        text.remove_prefix(word.size());
        if (!line.empty() && line.size() + 1 + word.size() > columns_max) {
            out += line + "\n";
            line.clear();
        }
        line += line.empty() ? margin : " ";
        line += word;
    }
    return line.empty() ? out : out + line + "\n";
}

}  // namespace strata
