// Reading the merges of a stranger's file: every piece is a token or the file is refused.
#include "serve/text/vocabulary.hpp"

#include <bit>
#include <string>
#include <unordered_set>
#include <utility>

namespace strata::serve {
namespace {

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
    auto tokens = TokenTable::read(header, Spelling::byte_level);
    if (!tokens) return tokens.failure();
    Vocabulary out(std::move(*tokens));
    if (auto status = out.find_bytes(); !status) return status.failure();
    if (auto status = out.read_merges(header); !status) return status.failure();
    return out;
}

Status<> Vocabulary::find_bytes() {
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
    std::unordered_set<std::string_view> others;  // texts of tokens that merges must not make
    for (TokenId id = 0; static_cast<std::size_t>(id) < tokens_.size(); ++id) {
        if (tokens_.kind(id) != TokenKind::normal) others.insert(tokens_.bytes(id));
    }
    pairs_.resize(std::bit_ceil((*merges)->size() * 2 + 1));
    std::uint32_t rank = 0;
    std::string left;
    std::string right;
    for (const std::string& line : **merges) {
        const std::size_t space = line.find(' ', 1);
        const std::string_view text = line;
        const auto where = [&] {
            return "tokenizer.ggml.merges[" + std::to_string(rank) + "] " + gguf::in_quotes(line);
        };
        if (space == std::string::npos || !undo_byte_level(text.substr(0, space), left) ||
            !undo_byte_level(text.substr(space + 1), right)) {
            return refuse(where() + " is not two pieces with a space between");
        }
        const std::string joined = left + right;
        for (const std::string_view piece :
             {std::string_view(left), std::string_view(right), std::string_view(joined)}) {
            if (whole_word(piece) < 0 && !others.contains(piece)) {
                return refuse(where() + ": " + gguf::in_quotes(piece) +
                              " is not in the vocabulary");
            }
        }
        const TokenId result = whole_word(joined);
        if (whole_word(left) >= 0 && whole_word(right) >= 0 && result >= 0) {
            insert_pair(whole_word(left), whole_word(right), {rank, result});
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

}  // namespace strata::serve
