// The two tokenizers: control tokens of the template's own text first, then what the vocabulary
// makes of the text between them. Tables are the vocabularies'; edge rules and end ids are read
// here.
#include "serve/text/tokenizer.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "serve/text/bpe.hpp"
#include "serve/text/pretokenizer.hpp"
#include "serve/text/special_tokens.hpp"
#include "serve/text/spm.hpp"
#include "serve/text/vocabulary.hpp"

namespace strata::serve {
namespace {

// Plain text under byte-level BPE: words, then merges.
class BpeText {
  public:
    BpeText(Vocabulary vocabulary, PreTokenizer words)
        : vocabulary_(std::move(vocabulary)), words_(words) {}
    const TokenTable& tokens() const { return vocabulary_.tokens(); }
    bool adds_space() const { return false; }

    class Session {
      public:
        explicit Session(const BpeText& text) : text_(text), merger_(text.vocabulary_) {}
        void append(std::string_view text, std::vector<TokenId>& out) {
            const bool whole_words = habits_of(text_.words_).ignore_merges;
            for (WordCutter cutter(text_.words_, text); !cutter.done();) {
                const std::string_view word = cutter.next();
                const TokenId whole = whole_words ? text_.vocabulary_.whole_word(word) : -1;
                if (whole >= 0) {
                    out.push_back(whole);
                } else {
                    merger_.append(word, out);
                }
            }
        }

      private:
        const BpeText& text_;
        WordMerger merger_;
    };

  private:
    Vocabulary vocabulary_;
    PreTokenizer words_;
};

// Plain text under sentencepiece BPE: one piece of text as a whole, after the space that the model
// expects before it.
class SpmText {
  public:
    SpmText(SpmVocabulary vocabulary, bool adds_space)
        : vocabulary_(std::move(vocabulary)), adds_space_(adds_space) {}
    const TokenTable& tokens() const { return vocabulary_.tokens(); }
    bool adds_space() const { return adds_space_; }

    class Session {
      public:
        explicit Session(const SpmText& text) : text_(text), merger_(text.vocabulary_) {}
        void append(std::string_view text, std::vector<TokenId>& out) {
            if (text.empty()) return;
            spelled_.clear();
            if (text_.adds_space_) spelled_ += ' ';
            append_with_spaces(text, spelled_);
            merger_.append(spelled_, out);
        }

      private:
        const SpmText& text_;
        SpmMerger merger_;
        std::string spelled_;
    };

  private:
    SpmVocabulary vocabulary_;
    bool adds_space_;
};

template <class PlainText>
class TableTokenizer final : public Tokenizer {
  public:
    struct Rules {
        EdgeRules edges;
        std::vector<TokenId> ends;
    };
    TableTokenizer(PlainText plain, Rules rules)
        : plain_(std::move(plain)), specials_(plain_.tokens()), rules_(std::move(rules)) {}

    std::vector<TokenId> encode(std::span<const PromptPiece> pieces) const override {
        std::string text;
        std::vector<FoundToken> found;
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

    std::string decode(std::span<const TokenId> ids) const override {
        std::string out;
        bool after_edge = true;  // of the text or a control token: here encode() adds its space
        for (const TokenId id : ids) {
            std::string_view text = bytes(id);
            const bool plain = is_plain(kind(id));
            if (plain && after_edge && plain_.adds_space() && text.starts_with(' ')) {
                text.remove_prefix(1);
            }
            after_edge = !plain;
            out += text;
        }
        return out;
    }

    std::string_view bytes(TokenId id) const override {
        return known(id) ? plain_.tokens().bytes(id) : "";
    }
    TokenKind kind(TokenId id) const override {
        return known(id) ? plain_.tokens().kind(id) : TokenKind::unknown;
    }
    std::size_t size() const override { return plain_.tokens().size(); }
    std::vector<TokenId> end_ids() const override { return rules_.ends; }
    TokenId special(std::string_view text) const override { return specials_.find(text); }
    EdgeRules edges() const override { return rules_.edges; }

  private:
    bool known(TokenId id) const { return id >= 0 && static_cast<std::size_t>(id) < size(); }
    static bool is_plain(TokenKind kind) {
        return kind == TokenKind::normal || kind == TokenKind::unused || kind == TokenKind::byte;
    }

    std::vector<TokenId> encode_around(std::string_view text,
                                       const std::vector<FoundToken>& found) const {
        std::vector<TokenId> out;
        typename PlainText::Session session(plain_);
        std::size_t at = 0;
        for (const FoundToken& special : found) {
            session.append(text.substr(at, special.begin - at), out);
            out.push_back(special.id);
            at = special.end;
        }
        session.append(text.substr(at), out);
        return out;
    }

    PlainText plain_;
    SpecialTokens specials_;  // holds views into the tokens of plain_
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

template <class PlainText>
Result<std::unique_ptr<Tokenizer>> finished(const gguf::Header& header, PlainText plain,
                                            bool add_bos) {
    const std::size_t size = plain.tokens().size();
    auto edges = read_edges(header, size, add_bos);
    if (!edges) return edges.failure();
    auto ends = read_ends(header, size);
    if (!ends) return ends.failure();
    using Made = TableTokenizer<PlainText>;
    return std::unique_ptr<Tokenizer>(
        std::make_unique<Made>(std::move(plain), typename Made::Rules{*edges, std::move(*ends)}));
}

Result<std::unique_ptr<Tokenizer>> make_bpe(const gguf::Header& header) {
    auto vocabulary = Vocabulary::read(header);
    if (!vocabulary) return vocabulary.failure();
    const auto name = header.string_value("tokenizer.ggml.pre");
    if (!name) return name.failure();
    const auto words = pre_tokenizer_named(*name);
    if (!words) {
        return refuse("tokenizer.ggml.pre is " + gguf::in_quotes(*name) + ", known are " +
                      std::string(pre_tokenizer_names()));
    }
    return finished(header, BpeText(std::move(*vocabulary), *words), habits_of(*words).add_bos);
}

Result<std::unique_ptr<Tokenizer>> make_spm(const gguf::Header& header) {
    auto vocabulary = SpmVocabulary::read(header);
    if (!vocabulary) return vocabulary.failure();
    // Files of this model begin texts with a space and BOS where they do not say otherwise.
    const auto adds_space = flag_value(header, "tokenizer.ggml.add_space_prefix", true);
    if (!adds_space) return adds_space.failure();
    return finished(header, SpmText(std::move(*vocabulary), *adds_space), true);
}

}  // namespace

std::vector<TokenId> Tokenizer::encode(std::string_view text, ParseSpecial special) const {
    const std::array<PromptPiece, 1> pieces = {{{std::string(text), special == ParseSpecial::no}}};
    return encode(pieces);
}

Result<std::unique_ptr<Tokenizer>> make_tokenizer(const gguf::Header& header) {
    const auto model = header.string_value("tokenizer.ggml.model");
    if (!model) return model.failure();
    if (*model == "gpt2") return make_bpe(header);
    if (*model == "llama") return make_spm(header);
    return refuse("tokenizer.ggml.model is " + gguf::in_quotes(*model) +
                  ", this server reads \"gpt2\" (byte-level BPE) and \"llama\" (sentencepiece "
                  "BPE)");
}

}  // namespace strata::serve
