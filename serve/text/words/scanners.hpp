// One function for each published pattern: where the word that starts here ends. The start is
// always the end of the word before it; start < result.
#pragma once

#include <cstddef>
#include <string_view>

#include "serve/text/words/reader.hpp"

namespace strata::serve::words {

// gpt-2: letters and numbers in runs, an optional space before each.
std::size_t gpt2_end(const Reader& reader, std::size_t start);
// The same after each number was cut out.
std::size_t gpt2_digits_end(std::string_view text, std::size_t start);

// llama-bpe and its relatives: any one leading character before letters.
struct LetterRules {
    bool marks_join = false;     // [\p{L}\p{M}]+ for \p{L}+
    std::size_t digits_max = 1;  // \p{N}{1,digits_max}
};
std::size_t letters_end(const Reader& reader, std::size_t start, LetterRules rules);

// o200k and tekken: words also end where capitals follow small letters.
struct CasedRules {
    bool contractions = false;  // a word takes its 's, 't, ... along
    std::size_t digits_max = 1;
};
std::size_t cased_end(const Reader& reader, std::size_t start, CasedRules rules);

std::size_t deepseek_v3_end(std::string_view text, std::size_t start);

// deepseek-coder and deepseek-llm: five and six splits, one after the other.
enum class LineSplits : unsigned char { coder, llm };
// `blanks_known` is the scanner's own memory between the words of one text, 0 before the first: up
// to there no run of blanks ends its part of the text. Without it a text of blanks would be read
// again for each of its words.
std::size_t deepseek_lines_end(std::string_view text, std::size_t start, LineSplits splits,
                               std::size_t& blanks_known);

}  // namespace strata::serve::words
