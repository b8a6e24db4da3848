// The first cut of byte-level BPE: text into words, before any merge. Every published pattern has
// its own scanner, because a regular expression engine must not run on a client's text. Knows no
// vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace strata::serve {

enum class PreTokenizer : std::uint8_t {
    gpt2,    // letters and digits in runs, an optional space before each
    llama3,  // any one leading character before letters, digits by threes
    qwen2,   // as llama3, digits alone
    qwen35,  // as qwen2, marks join letters
};

// By the name in tokenizer.ggml.pre.
std::optional<PreTokenizer> pre_tokenizer_named(std::string_view name);
// The published pattern, as the vocabulary's own files print it.
std::string_view pattern_of(PreTokenizer kind);
// The names that pre_tokenizer_named knows, for messages.
std::string_view pre_tokenizer_names();

// The end of the word that starts at `start`; start < result <= text.size(). Walking a whole text
// this way takes time linear in its size. A byte that is not UTF-8 counts as a character that is
// neither letter, mark, number nor white space. Precondition: start < text.size().
std::size_t word_end(PreTokenizer kind, std::string_view text, std::size_t start);

}  // namespace strata::serve
