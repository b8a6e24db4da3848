// What the tests of serve/text share: fixtures, the demo's vocabulary, small vocabularies built by
// hand and PCRE2 as the oracle of patterns.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json.hpp>

#include "protocol/gguf/gguf.hpp"
#include "serve/text/tokenizer.hpp"
#include "tests/serve/text/json_values.hpp"

namespace strata::serve::text_test {

// A file of the tree, by its path from the root. Ends the test when it is not there.
std::string read_tree_file(const std::string& path);
boost::json::value read_tree_json(const std::string& path);

inline constexpr const char* kDemoModel =
    STRATA_SOURCE_DIR "/tools/demo_model/strata-demo-q8_0.gguf";
const gguf::Header& demo_header();
const Tokenizer& demo_tokenizer();

// A byte-level vocabulary: the 256 bytes, then the results of the merges, then the control tokens.
// Merges are given with a space between their pieces, in plain ASCII.
struct SmallVocabulary {
    std::string pre = "gpt-2";
    std::vector<std::string> merges;
    std::vector<std::string> controls;
};
gguf::Header header_of(const SmallVocabulary& vocabulary);
// A sentencepiece vocabulary: <unk>, <s>, </s>, the 256 bytes, then the pieces, best first (a score
// of -1, -2, ...). Pieces are given with U+2581 for a space.
gguf::Header spm_header_of(const std::vector<std::string>& pieces);
// How a byte is written in a byte-level vocabulary.
std::string written_byte(std::uint8_t byte);

std::vector<TokenId> encode_trusted(const Tokenizer& tokenizer, std::string text);
std::vector<TokenId> encode_message(const Tokenizer& tokenizer, std::string text);
std::string decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids);

// The words of patterns, with UTF and UCP; \s is the White_Space property. Each pattern splits what
// the ones before it left between their matches; what none matches is a word as well.
class Patterns {
  public:
    explicit Patterns(std::span<const std::string_view> patterns);
    ~Patterns();
    Patterns(const Patterns&) = delete;
    Patterns& operator=(const Patterns&) = delete;
    // Lengths in bytes; together they are the whole text.
    std::vector<std::size_t> words(std::string_view text) const;
    // Number of the group of the first pattern that matched a text of one character, 0 when none.
    int group(std::string_view character) const;

  private:
    struct Compiled;
    void split(std::size_t depth, std::string_view text, std::vector<std::size_t>& out) const;
    std::vector<Compiled> compiled_;
};

// CPU seconds of this process: bounds on work must not depend on how busy the machine is.
double cpu_seconds();

// Random numbers that are the same everywhere.
class Dice {
  public:
    explicit Dice(std::uint64_t seed) : state_(seed) {}
    std::uint64_t next();
    std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }

  private:
    std::uint64_t state_;
};

}  // namespace strata::serve::text_test
