// Fixtures, vocabularies and PCRE2 for the tests of serve/text.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "tests/serve/text/support.hpp"

#include <array>
#include <cstdio>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>
#include <pcre2.h>

#include "serve/text/unicode.hpp"

namespace strata::serve::text_test {

std::string read_tree_file(const std::string& path) {
    std::ifstream file(std::string(STRATA_SOURCE_DIR "/") + path, std::ios::binary);
    INFO(path);
    REQUIRE(file.good());
    std::stringstream all;
    all << file.rdbuf();
    return all.str();
}

boost::json::value read_tree_json(const std::string& path) {
    boost::json::parse_options options;
    options.max_depth = 64;
    return boost::json::parse(read_tree_file(path), {}, options);
}

const gguf::Header& demo_header() {
    static const auto header = gguf::read_header(kDemoModel);
    REQUIRE(header.ok());
    return *header;
}

const Tokenizer& demo_tokenizer() {
    static const auto tokenizer = make_tokenizer(demo_header());
    REQUIRE(tokenizer.ok());
    return **tokenizer;
}

std::string written_byte(std::uint8_t byte) {
    // The definition of the alphabet, counted out: the k-th byte that is not printable is U+0100 +
    // k.
    const auto printable = [](unsigned b) {
        return (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || (b >= 174 && b <= 255);
    };
    char32_t code = byte;
    if (!printable(byte)) {
        code = 0x100;
        for (unsigned b = 0; b < byte; ++b) code += printable(b) ? 0U : 1U;
    }
    std::string out;
    append_utf8(out, code);
    return out;
}

gguf::Header header_of(const SmallVocabulary& vocabulary) {
    gguf::StringArray tokens;
    gguf::StringArray merges;
    for (unsigned byte = 0; byte < 256; ++byte) {
        tokens.values.push_back(written_byte(static_cast<std::uint8_t>(byte)));
    }
    for (const std::string& merge : vocabulary.merges) {
        merges.values.push_back(merge);
        const std::size_t space = merge.find(' ', 1);
        tokens.values.push_back(merge.substr(0, space) + merge.substr(space + 1));
    }
    std::vector<std::int64_t> types(tokens.values.size(), 1);
    for (const std::string& control : vocabulary.controls) {
        tokens.values.push_back(control);
        types.push_back(3);
    }
    gguf::Header header;
    header.metadata["tokenizer.ggml.model"] = std::string("gpt2");
    header.metadata["tokenizer.ggml.pre"] = vocabulary.pre;
    header.metadata["tokenizer.ggml.tokens"] = tokens;
    header.metadata["tokenizer.ggml.token_type"] = types;
    header.metadata["tokenizer.ggml.merges"] = merges;
    return header;
}

gguf::Header spm_header_of(const std::vector<std::string>& pieces) {
    gguf::StringArray tokens = {{"<unk>", "<s>", "</s>"}};
    std::vector<std::int64_t> types = {2, 3, 3};
    std::vector<double> scores(3, 0.0);
    for (unsigned byte = 0; byte < 256; ++byte) {
        std::array<char, 8> text{};
        std::snprintf(text.data(), text.size(), "<0x%02X>", byte);
        tokens.values.emplace_back(text.data());
        types.push_back(6);
        scores.push_back(0.0);
    }
    for (const std::string& piece : pieces) {
        tokens.values.push_back(piece);
        types.push_back(1);
        scores.push_back(258.0 - static_cast<double>(scores.size()));
    }
    gguf::Header header;
    header.metadata["tokenizer.ggml.model"] = std::string("llama");
    header.metadata["tokenizer.ggml.tokens"] = tokens;
    header.metadata["tokenizer.ggml.token_type"] = types;
    header.metadata["tokenizer.ggml.scores"] = scores;
    header.metadata["tokenizer.ggml.bos_token_id"] = std::uint64_t{1};
    header.metadata["tokenizer.ggml.eos_token_id"] = std::uint64_t{2};
    return header;
}

std::vector<TokenId> encode_trusted(const Tokenizer& tokenizer, std::string text) {
    return tokenizer.encode(std::vector<PromptPiece>{{std::move(text), false}});
}

std::vector<TokenId> encode_message(const Tokenizer& tokenizer, std::string text) {
    return tokenizer.encode(std::vector<PromptPiece>{{std::move(text), true}});
}

std::string decode(const Tokenizer& tokenizer, const std::vector<TokenId>& ids) {
    std::string out;
    for (const TokenId id : ids) out += tokenizer.bytes(id);
    return out;
}

struct Patterns::Compiled {
    pcre2_code* code = nullptr;
    pcre2_match_data* match = nullptr;
};

Patterns::Patterns(std::span<const std::string_view> patterns) {
    for (const std::string_view pattern : patterns) {
        std::string text(pattern);
        for (const auto& [from, to] :
             {std::pair<std::string, std::string>{"\\s", "\\p{White_Space}"},
              {"\\S", "\\P{White_Space}"}}) {
            for (std::size_t at = text.find(from); at != std::string::npos;
                 at = text.find(from, at + to.size())) {
                text.replace(at, from.size(), to);
            }
        }
        int error = 0;
        PCRE2_SIZE where = 0;
        Compiled compiled;
        compiled.code =
            pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                          PCRE2_UTF | PCRE2_UCP | PCRE2_DOLLAR_ENDONLY, &error, &where, nullptr);
        INFO(text);
        REQUIRE(compiled.code != nullptr);
        pcre2_jit_compile(compiled.code, PCRE2_JIT_COMPLETE);
        compiled.match = pcre2_match_data_create_from_pattern(compiled.code, nullptr);
        compiled_.push_back(compiled);
    }
}

Patterns::~Patterns() {
    for (const Compiled& compiled : compiled_) {
        pcre2_match_data_free(compiled.match);
        pcre2_code_free(compiled.code);
    }
}

std::vector<std::size_t> Patterns::words(std::string_view text) const {
    std::vector<std::size_t> lengths;
    split(0, text, lengths);
    return lengths;
}

void Patterns::split(std::size_t depth, std::string_view text,
                     std::vector<std::size_t>& out) const {
    if (text.empty()) return;
    if (depth == compiled_.size()) {
        out.push_back(text.size());
        return;
    }
    const Compiled& own = compiled_[depth];
    while (!text.empty()) {
        const int found = pcre2_match(own.code, reinterpret_cast<PCRE2_SPTR>(text.data()),
                                      text.size(), 0, 0, own.match, nullptr);
        if (found <= 0) break;
        const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(own.match);
        const std::size_t begin = bounds[0];
        const std::size_t end = bounds[1];
        REQUIRE(end > begin);
        split(depth + 1, text.substr(0, begin), out);
        out.push_back(end - begin);
        text.remove_prefix(end);
    }
    split(depth + 1, text, out);
}

int Patterns::group(std::string_view character) const {
    const Compiled& own = compiled_.front();
    const int found = pcre2_match(own.code, reinterpret_cast<PCRE2_SPTR>(character.data()),
                                  character.size(), 0, PCRE2_ANCHORED, own.match, nullptr);
    return found > 0 ? found - 1 : 0;
}

double cpu_seconds() {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

std::uint64_t Dice::next() {
    // splitmix64
    state_ += 0x9E3779B97F4A7C15ULL;
    std::uint64_t z = state_;
    z = (z ^ (z >> 30U)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27U)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31U);
}

}  // namespace strata::serve::text_test
