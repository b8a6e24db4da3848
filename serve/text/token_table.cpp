// Reading the tokens of a stranger's file: every array is checked against the others before use.
#include "serve/text/token_table.hpp"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>

#include "serve/text/unicode.hpp"

namespace strata::serve {
namespace {

// Byte-level vocabularies write each byte as one printable character: printable Latin-1 stays,
// every other byte b is U+0100 + its rank among those (GPT-2's bytes_to_unicode).
constexpr char32_t kShifted = 0x100;
constexpr std::size_t kAlphabetCodes = 0x144;

constexpr std::array<std::int16_t, kAlphabetCodes> byte_alphabet() {
    std::array<std::int16_t, kAlphabetCodes> byte_of{};
    byte_of.fill(-1);
    std::size_t shifted = kShifted;
    for (std::size_t byte = 0; byte < 256; ++byte) {
        const bool printable = (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte != 0xAD);
        byte_of[printable ? byte : shifted++] = static_cast<std::int16_t>(byte);
    }
    return byte_of;
}
constexpr std::array<std::int16_t, kAlphabetCodes> kByteOf = byte_alphabet();

constexpr std::string_view kSpaceMark = "\xE2\x96\x81";  // U+2581

std::optional<unsigned> hex_digit(char c) {
    if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
    if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
    if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
    return std::nullopt;
}

// <0x0A>
std::optional<char> byte_of_text(std::string_view text) {
    if (text.size() != 6 || !text.starts_with("<0x") || !text.ends_with(">")) return std::nullopt;
    const auto high = hex_digit(text[3]);
    const auto low = hex_digit(text[4]);
    if (!high || !low) return std::nullopt;
    return static_cast<char>(*high * 16 + *low);
}

std::string raw_bytes(const std::string& text, TokenKind kind, Spelling spelling) {
    const bool plain = kind == TokenKind::normal || kind == TokenKind::unused;
    if (spelling == Spelling::byte_level) {
        std::string out;
        return plain && undo_byte_level(text, out) ? out : text;
    }
    if (kind == TokenKind::byte) {
        const auto byte = byte_of_text(text);
        return byte ? std::string(1, *byte) : text;
    }
    if (!plain) return text;
    std::string out;
    append_with_spaces(text, out);
    return out;
}

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

}  // namespace

void append_with_spaces(std::string_view text, std::string& out) {
    std::size_t mark = text.find(kSpaceMark);
    for (; mark != std::string_view::npos; mark = text.find(kSpaceMark)) {
        out += text.substr(0, mark);
        out += ' ';
        text.remove_prefix(mark + kSpaceMark.size());
    }
    out += text;
}

bool undo_byte_level(std::string_view text, std::string& out) {
    out.clear();
    for (std::size_t at = 0; at < text.size();) {
        const Utf8Step step = utf8_step(text, at);
        if (step.kind != Utf8Kind::valid || step.code >= kAlphabetCodes) return false;
        if (kByteOf[step.code] < 0) return false;
        out += static_cast<char>(kByteOf[step.code]);
        at += step.bytes;
    }
    return true;
}

Result<const std::vector<std::string>*> strings_of(const gguf::Header& header,
                                                   std::string_view key) {
    const gguf::Value* value = header.find(key);
    if (value == nullptr) return refuse("the file has no " + std::string(key));
    const auto* strings = std::get_if<gguf::StringArray>(value);
    if (strings == nullptr) return refuse(std::string(key) + " is not an array of strings");
    return &strings->values;
}

Result<TokenTable> TokenTable::read(const gguf::Header& header, Spelling spelling) {
    const auto tokens = strings_of(header, "tokenizer.ggml.tokens");
    if (!tokens) return tokens.failure();
    const std::vector<std::string>& texts = **tokens;
    if (texts.size() > static_cast<std::size_t>(std::numeric_limits<TokenId>::max())) {
        return refuse("tokenizer.ggml.tokens has too many entries");
    }
    auto kinds = read_kinds(header, texts.size());
    if (!kinds) return kinds.failure();
    TokenTable table;
    table.kinds_ = std::move(*kinds);
    table.starts_.push_back(0);
    for (const std::string& text : texts) {
        if (auto status = table.append(text, spelling); !status) return status.failure();
    }
    table.words_.reserve(texts.size());
    for (TokenId id = 0; static_cast<std::size_t>(id) < texts.size(); ++id) {
        table.index(id, spelling);
    }
    return table;
}

Status<> TokenTable::append(const std::string& text, Spelling spelling) {
    const std::size_t id = starts_.size() - 1;
    const std::string bytes = raw_bytes(text, kinds_[id], spelling);
    if (pool_.size() + bytes.size() > kVocabularyBytesMax) {
        return refuse("tokenizer.ggml.tokens holds more than " +
                      std::to_string(kVocabularyBytesMax) + " bytes");
    }
    const TokenKind kind = kinds_[id];
    const bool plain = kind == TokenKind::normal || kind == TokenKind::unused;
    if (!plain && bytes.size() > kSpecialBytesMax) {
        return refuse("tokenizer.ggml.tokens[" + std::to_string(id) + "] has " +
                      std::to_string(bytes.size()) + " bytes, a control token has at most " +
                      std::to_string(kSpecialBytesMax));
    }
    pool_.insert(pool_.end(), bytes.begin(), bytes.end());
    starts_.push_back(static_cast<std::uint32_t>(pool_.size()));
    return Done{};
}

void TokenTable::index(TokenId id, Spelling spelling) {
    const std::string_view text = bytes(id);
    if (text.empty()) return;
    const bool spm = spelling == Spelling::sentencepiece;
    switch (kind(id)) {
        case TokenKind::unused:
            if (!spm) return;
            [[fallthrough]];
        case TokenKind::normal:
            words_.emplace(text, id);
            word_bytes_max_ = std::max(word_bytes_max_, text.size());
            return;
        case TokenKind::control:
        case TokenKind::user_defined:
        case TokenKind::unknown:
            specials_.push_back(id);
            return;
        case TokenKind::byte:
            return;
    }
}

}  // namespace strata::serve
