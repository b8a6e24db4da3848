// The first cut of byte-level BPE: text into words, before any merge. Every published pattern has
// its own scanner (words/), because a regular expression engine must not run on a client's text.
// Knows no vocabulary.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace strata::serve {

enum class PreTokenizer : std::uint8_t {
    gpt2,         // letters and digits in runs, an optional space before each
    gpt2_digits,  // the same, digits alone
    llama3,       // any one leading character before letters, digits by threes
    qwen2,        // as llama3, digits alone
    qwen35,       // as qwen2, marks join letters
    o200k,        // as llama3, words end where capitals begin, marks join letters
    tekken,       // as o200k, digits alone, contractions apart
    deepseek_v3,  // digits by threes and East Asian runs first
    deepseek_coder,
    deepseek_llm,
};

// By the name in tokenizer.ggml.pre.
std::optional<PreTokenizer> pre_tokenizer_named(std::string_view name);
// The published patterns, as the vocabulary's own files print them. One: the text is its matches.
// Several: each splits what the ones before it left between their matches.
std::span<const std::string_view> patterns_of(PreTokenizer kind);
// The names that pre_tokenizer_named knows, for messages.
std::string_view pre_tokenizer_names();

// What files of the kind do that they do not say.
struct PreTokenizerHabits {
    bool ignore_merges = false;  // a word that is a token needs no merges to become it
    bool add_bos = false;        // a text begins with BOS
};
PreTokenizerHabits habits_of(PreTokenizer kind);

// Walks a text word by word, in time linear in its size. A byte that is not UTF-8 counts as a
// character that is neither letter, mark, number, white space nor sign. The text outlives the
// cutter.
class WordCutter {
  public:
    WordCutter(PreTokenizer kind, std::string_view text) : kind_(kind), text_(text) {}
    bool done() const { return at_ == text_.size(); }
    // The next word, never empty. Precondition: !done().
    std::string_view next();

  private:
    std::size_t word_end();

    PreTokenizer kind_;
    std::string_view text_;
    std::size_t at_ = 0;
    std::size_t blanks_known_ = 0;  // words/scanners.hpp
};

}  // namespace strata::serve
