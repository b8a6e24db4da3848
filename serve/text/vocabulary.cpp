// Reading the vocabulary of a stranger's file: every array is checked against the others before
// use.
#include "serve/text/vocabulary.hpp"

#include <bit>
#include <limits>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "serve/text/unicode.hpp"

namespace strata::serve {
namespace {

// Offsets into the pool are 32 bits; the largest released vocabularies hold about 5 MiB of text.
constexpr std::size_t kVocabularyBytesMax = std::size_t{256} << 20U;

// Byte-level vocabularies write each byte as one printable character: printable Latin-1 stays,
// every other byte b is U+0100 + its rank among those (GPT-2's bytes_to_unicode).
struct ByteAlphabet {
    static constexpr char32_t kFirst = 0x100;
    static constexpr std::size_t kCodes = 0x144;
    std::array<std::int16_t, kCodes> byte_of{};

    ByteAlphabet() {
        byte_of.fill(-1);
        std::size_t shifted = kFirst;
        for (std::size_t byte = 0; byte < 256; ++byte) {
            const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
            byte_of[printable ? byte : shifted++] = static_cast<std::int16_t>(byte);
        }
    }
    // The bytes that `text` stands for; nothing when a character is not of the alphabet.
    std::optional<std::string> undo(std::string_view text) const {
        std::string out;
        for (std::size_t at = 0; at < text.size();) {
            const Utf8Step step = utf8_step(text, at);
            if (step.kind != Utf8Kind::valid || step.code >= kCodes) return std::nullopt;
            if (byte_of[step.code] < 0) return std::nullopt;
            out += static_cast<char>(byte_of[step.code]);
            at += step.bytes;
        }
        return out;
    }
};

std::optional<TokenKind> kind_of(std::int64_t number) {
    switch (number) {
        case 1:
            return TokenKind::normal;
        case 2:
            return TokenKind::unknown;
        case 3:
            return TokenKind::control;
        case 4:
            return TokenKind::user_defined;
        case 5:
            return TokenKind::unused;
        case 6:
            return TokenKind::byte;
        default:
            return std::nullopt;
    }
}

Result<std::vector<TokenKind>> read_kinds(const gguf::Header& header, std::size_t count) {
    constexpr std::string_view kKey = "tokenizer.ggml.token_type";
    std::vector<TokenKind> kinds(count, TokenKind::normal);
    const gguf::Value* value = header.find(kKey);
    if (value == nullptr) return kinds;
    const auto* numbers = std::get_if<std::vector<std::int64_t>>(value);
    if (numbers == nullptr) return refuse(std::string(kKey) + " is not an array of integers");
    if (numbers->size() != count) {
        return refuse(std::string(kKey) + " has " + std::to_string(numbers->size()) +
                      " entries, the vocabulary has " + std::to_string(count) + " tokens");
    }
    for (std::size_t i = 0; i < count; ++i) {
        const auto kind = kind_of((*numbers)[i]);
        if (!kind) {
            return refuse(std::string(kKey) + "[" + std::to_string(i) + "] is " +
                          std::to_string((*numbers)[i]) + ", allowed are 1 to 6");
        }
        kinds[i] = *kind;
    }
    return kinds;
}

Result<const std::vector<std::string>*> strings_of(const gguf::Header& header,
                                                   std::string_view key) {
    const gguf::Value* value = header.find(key);
    if (value == nullptr) return refuse("the file has no " + std::string(key));
    const auto* strings = std::get_if<gguf::StringArray>(value);
    if (strings == nullptr) return refuse(std::string(key) + " is not an array of strings");
    return &strings->values;
}

std::uint64_t pair_key(TokenId left, TokenId right) {
    return (static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32U) |
           static_cast<std::uint32_t>(right);
}

std::size_t spread(std::uint64_t key) {
    key *= 0x9E3779B97F4A7C15ULL;  // golden ratio: neighbouring ids land far apart
    return static_cast<std::size_t>(key ^ (key >> 29U));
}

}  // namespace

Result<Vocabulary> Vocabulary::read(const gguf::Header& header) {
    const auto model = header.string_value("tokenizer.ggml.model");
    if (!model) return model.failure();
    if (*model != "gpt2") {
        return refuse("tokenizer.ggml.model is " + gguf::in_quotes(*model) +
                      ", this server reads \"gpt2\" (byte-level BPE)");
    }
    Vocabulary out;
    if (auto status = out.read_tokens(header); !status) return status.failure();
    if (auto status = out.read_merges(header); !status) return status.failure();
    return out;
}

Status<> Vocabulary::read_tokens(const gguf::Header& header) {
    const auto tokens = strings_of(header, "tokenizer.ggml.tokens");
    if (!tokens) return tokens.failure();
    const std::vector<std::string>& texts = **tokens;
    if (texts.size() > static_cast<std::size_t>(std::numeric_limits<TokenId>::max())) {
        return refuse("tokenizer.ggml.tokens has too many entries");
    }
    auto kinds = read_kinds(header, texts.size());
    if (!kinds) return kinds.failure();
    kinds_ = std::move(*kinds);
    const ByteAlphabet alphabet;
    starts_.push_back(0);
    for (std::size_t i = 0; i < texts.size(); ++i) {
        const bool plain = kinds_[i] == TokenKind::normal;
        const std::string bytes = plain ? alphabet.undo(texts[i]).value_or(texts[i]) : texts[i];
        if (pool_.size() + bytes.size() > kVocabularyBytesMax) {
            return refuse("tokenizer.ggml.tokens holds more than " +
                          std::to_string(kVocabularyBytesMax) + " bytes");
        }
        pool_.insert(pool_.end(), bytes.begin(), bytes.end());
        starts_.push_back(static_cast<std::uint32_t>(pool_.size()));
    }
    words_.reserve(texts.size());
    for (TokenId id = 0; static_cast<std::size_t>(id) < texts.size(); ++id) {
        if (kind(id) == TokenKind::normal) words_.emplace(bytes(id), id);
        const bool special = kind(id) == TokenKind::control || kind(id) == TokenKind::user_defined;
        if (special && !bytes(id).empty()) specials_.push_back(id);
    }
    for (std::size_t byte = 0; byte < byte_ids_.size(); ++byte) {
        const char text = static_cast<char>(byte);
        byte_ids_[byte] = whole_word({&text, 1});
        if (byte_ids_[byte] < 0) {
            return refuse("the vocabulary has no token for byte " + std::to_string(byte));
        }
    }
    return Done{};
}

Status<> Vocabulary::read_merges(const gguf::Header& header) {
    const auto merges = strings_of(header, "tokenizer.ggml.merges");
    if (!merges) return merges.failure();
    const ByteAlphabet alphabet;
    std::unordered_set<std::string_view> others;  // texts of tokens that merges must not make
    for (TokenId id = 0; static_cast<std::size_t>(id) < size(); ++id) {
        if (kind(id) != TokenKind::normal) others.insert(bytes(id));
    }
    pairs_.resize(std::bit_ceil((*merges)->size() * 2 + 1));
    std::uint32_t rank = 0;
    for (const std::string& line : **merges) {
        const std::size_t space = line.find(' ', 1);
        const std::string_view text = line;
        const auto left = alphabet.undo(text.substr(0, space));
        const auto right =
            space == std::string::npos ? std::nullopt : alphabet.undo(text.substr(space + 1));
        const std::string where =
            "tokenizer.ggml.merges[" + std::to_string(rank) + "] " + gguf::in_quotes(line);
        if (!left || !right) return refuse(where + " is not two pieces with a space between");
        const std::string joined = *left + *right;
        for (const std::string* piece : {&*left, &*right, &joined}) {
            if (whole_word(*piece) < 0 && !others.contains(*piece)) {
                return refuse(where + ": " + gguf::in_quotes(*piece) + " is not in the vocabulary");
            }
        }
        const TokenId result = whole_word(joined);
        if (whole_word(*left) >= 0 && whole_word(*right) >= 0 && result >= 0) {
            insert_pair(whole_word(*left), whole_word(*right), {rank, result});
        }
        ++rank;
    }
    return Done{};
}

void Vocabulary::insert_pair(TokenId left, TokenId right, Merge merge) {
    const std::uint64_t key = pair_key(left, right);
    const std::size_t mask = pairs_.size() - 1;
    std::size_t at = spread(key) & mask;
    while (pairs_[at].pair != kNoPair && pairs_[at].pair != key) at = (at + 1) & mask;
    if (pairs_[at].pair == kNoPair) pairs_[at] = {key, merge};
}

Merge Vocabulary::merge(TokenId left, TokenId right) const {
    const std::uint64_t key = pair_key(left, right);
    const std::size_t mask = pairs_.size() - 1;
    for (std::size_t at = spread(key) & mask; pairs_[at].pair != kNoPair; at = (at + 1) & mask) {
        if (pairs_[at].pair == key) return pairs_[at].merge;
    }
    return {};
}

TokenId Vocabulary::whole_word(std::string_view word) const {
    const auto found = words_.find(word);
    return found == words_.end() ? -1 : found->second;
}

}  // namespace strata::serve
