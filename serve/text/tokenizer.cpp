// The tokenizer of byte-level BPE files: control tokens of the template's own text first, then
// words, then merges. Tables are the vocabulary's; edge rules and end ids are read here.
#include "serve/text/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <bitset>
#include <string>
#include <utility>

#include "serve/text/bpe.hpp"
#include "serve/text/pretokenizer.hpp"
#include "serve/text/vocabulary.hpp"

namespace strata::serve {
namespace {

struct Found {
    std::size_t begin = 0;
    std::size_t end = 0;
    TokenId id = -1;
};

// Control and user-defined tokens, sorted by text. Finds the leftmost and of those the longest.
class SpecialTokens {
  public:
    explicit SpecialTokens(const Vocabulary& vocabulary) {
        for (const TokenId id : vocabulary.specials())
            entries_.push_back({vocabulary.bytes(id), id});
        std::stable_sort(entries_.begin(), entries_.end(),
                         [](const Entry& a, const Entry& b) { return a.text < b.text; });
        for (const Entry& entry : entries_) firsts_.set(static_cast<std::uint8_t>(entry.text[0]));
    }

    TokenId find(std::string_view text) const {
        const auto at =
            std::lower_bound(entries_.begin(), entries_.end(), text,
                             [](const Entry& e, std::string_view t) { return e.text < t; });
        return at != entries_.end() && at->text == text ? at->id : -1;
    }

    // Appends the tokens inside text[begin, end), left to right without overlap.
    void scan(std::string_view text, std::size_t begin, std::size_t end,
              std::vector<Found>& out) const {
        for (std::size_t at = begin; at < end;) {
            const Found found = longest(text.substr(0, end), at);
            if (found.id >= 0) out.push_back(found);
            at = found.id >= 0 ? found.end : at + 1;
        }
    }

  private:
    struct Entry {
        std::string_view text;
        TokenId id;
    };

    // Narrows the sorted entries byte by byte to those that begin like the text at `at`.
    Found longest(std::string_view text, std::size_t at) const {
        Found best;
        if (!firsts_.test(static_cast<std::uint8_t>(text[at]))) return best;
        auto low = entries_.begin();
        auto high = entries_.end();
        for (std::size_t depth = 0; low != high && at + depth < text.size(); ++depth) {
            const auto byte = static_cast<std::uint8_t>(text[at + depth]);
            // An entry that ends here sorts before every longer one.
            low = std::partition_point(low, high, [&](const Entry& e) {
                return e.text.size() <= depth || static_cast<std::uint8_t>(e.text[depth]) < byte;
            });
            high = std::partition_point(low, high, [&](const Entry& e) {
                return static_cast<std::uint8_t>(e.text[depth]) == byte;
            });
            if (low != high && low->text.size() == depth + 1) best = {at, at + depth + 1, low->id};
        }
        return best;
    }

    std::vector<Entry> entries_;
    std::bitset<256> firsts_;
};

class BpeTokenizer final : public Tokenizer {
  public:
    struct Rules {
        PreTokenizer words = PreTokenizer::gpt2;
        bool ignore_merges = false;  // a word that is a token needs no merges to become it
        EdgeRules edges;
        std::vector<TokenId> ends;
    };
    BpeTokenizer(std::unique_ptr<const Vocabulary> vocabulary, Rules rules)
        : vocabulary_(std::move(vocabulary)), specials_(*vocabulary_), rules_(std::move(rules)) {}

    std::vector<TokenId> encode(std::span<const PromptPiece> pieces) const override {
        std::string text;
        std::vector<Found> found;
        std::size_t trusted = 0;  // where the template's own text that ends here began
        const auto close_trusted = [&] { specials_.scan(text, trusted, text.size(), found); };
        for (const PromptPiece& piece : pieces) {
            if (piece.text.empty()) continue;
            if (piece.from_message) close_trusted();
            text += piece.text;
            if (piece.from_message) trusted = text.size();
        }
        close_trusted();
        return encode_around(text, found);
    }

    std::string_view bytes(TokenId id) const override {
        return id >= 0 && static_cast<std::size_t>(id) < size() ? vocabulary_->bytes(id) : "";
    }
    TokenKind kind(TokenId id) const override {
        const bool known = id >= 0 && static_cast<std::size_t>(id) < size();
        return known ? vocabulary_->kind(id) : TokenKind::unknown;
    }
    std::size_t size() const override { return vocabulary_->size(); }
    std::vector<TokenId> end_ids() const override { return rules_.ends; }
    TokenId special(std::string_view text) const override { return specials_.find(text); }
    EdgeRules edges() const override { return rules_.edges; }

  private:
    std::vector<TokenId> encode_around(std::string_view text,
                                       const std::vector<Found>& found) const {
        std::vector<TokenId> out;
        WordMerger merger(*vocabulary_);
        std::size_t at = 0;
        for (const Found& special : found) {
            encode_plain(text.substr(at, special.begin - at), merger, out);
            out.push_back(special.id);
            at = special.end;
        }
        encode_plain(text.substr(at), merger, out);
        return out;
    }

    void encode_plain(std::string_view text, WordMerger& merger, std::vector<TokenId>& out) const {
        for (std::size_t at = 0; at < text.size();) {
            const std::size_t end = word_end(rules_.words, text, at);
            const std::string_view word = text.substr(at, end - at);
            const TokenId whole = rules_.ignore_merges ? vocabulary_->whole_word(word) : -1;
            if (whole >= 0) {
                out.push_back(whole);
            } else {
                merger.append(word, out);
            }
            at = end;
        }
    }

    std::unique_ptr<const Vocabulary> vocabulary_;  // specials_ holds views into it
    SpecialTokens specials_;
    Rules rules_;
};

// An id of the metadata: -1 when the key is missing.
Result<TokenId> id_value(const gguf::Header& header, std::string_view key, std::size_t size) {
    if (header.find(key) == nullptr) return TokenId{-1};
    const auto number = header.unsigned_value(key);
    if (!number) return number.failure();
    if (*number >= size) {
        return refuse(std::string(key) + " is " + std::to_string(*number) +
                      ", the vocabulary has " + std::to_string(size) + " tokens");
    }
    return static_cast<TokenId>(*number);
}

Result<bool> flag_value(const gguf::Header& header, std::string_view key, bool fallback) {
    if (header.find(key) == nullptr) return fallback;
    return header.bool_value(key);
}

Result<Tokenizer::EdgeRules> read_edges(const gguf::Header& header, std::size_t size,
                                        bool add_bos) {
    const auto bos = id_value(header, "tokenizer.ggml.bos_token_id", size);
    if (!bos) return bos.failure();
    const auto eos = id_value(header, "tokenizer.ggml.eos_token_id", size);
    if (!eos) return eos.failure();
    const auto begin = flag_value(header, "tokenizer.ggml.add_bos_token", add_bos);
    if (!begin) return begin.failure();
    const auto end = flag_value(header, "tokenizer.ggml.add_eos_token", false);
    if (!end) return end.failure();
    return Tokenizer::EdgeRules{*bos, *eos, *begin && *bos >= 0, *end && *eos >= 0};
}

Result<std::vector<TokenId>> read_ends(const gguf::Header& header, std::size_t size) {
    constexpr std::array<std::string_view, 3> kKeys = {"tokenizer.ggml.eos_token_id",
                                                       "tokenizer.ggml.eot_token_id",
                                                       "tokenizer.ggml.eom_token_id"};
    std::vector<TokenId> ends;
    for (const std::string_view key : kKeys) {
        const auto id = id_value(header, key, size);
        if (!id) return id.failure();
        if (*id >= 0 && std::find(ends.begin(), ends.end(), *id) == ends.end()) ends.push_back(*id);
    }
    return ends;
}

}  // namespace

std::vector<TokenId> Tokenizer::encode(std::string_view text, ParseSpecial special) const {
    const std::array<PromptPiece, 1> pieces = {{{std::string(text), special == ParseSpecial::no}}};
    return encode(pieces);
}

Result<std::unique_ptr<Tokenizer>> make_tokenizer(const gguf::Header& header) {
    auto vocabulary = Vocabulary::read(header);
    if (!vocabulary) return vocabulary.failure();
    const auto name = header.string_value("tokenizer.ggml.pre");
    if (!name) return name.failure();
    const auto words = pre_tokenizer_named(*name);
    if (!words) {
        return refuse("tokenizer.ggml.pre is " + gguf::in_quotes(*name) + ", known are " +
                      std::string(pre_tokenizer_names()));
    }
    // Files of this family begin with BOS and map whole words even where they do not say so.
    const bool llama3 = *words == PreTokenizer::llama3;
    const std::size_t size = vocabulary->size();
    auto edges = read_edges(header, size, llama3);
    if (!edges) return edges.failure();
    auto ends = read_ends(header, size);
    if (!ends) return ends.failure();
    return std::unique_ptr<Tokenizer>(std::make_unique<BpeTokenizer>(
        std::make_unique<const Vocabulary>(std::move(*vocabulary)),
        BpeTokenizer::Rules{*words, llama3, *edges, std::move(*ends)}));
}

}  // namespace strata::serve
