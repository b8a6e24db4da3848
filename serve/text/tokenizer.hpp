// Text <-> token ids, from the vocabulary in a GGUF file.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/gguf/gguf.hpp"
#include "strata/core/result.hpp"

namespace strata::serve {

using TokenId = std::int32_t;

// A piece of a prompt. Only the template's own text may become control or user-defined tokens; text
// that came from a message never does.
struct PromptPiece {
    std::string text;
    bool from_message = false;
};

// Of one text: whether the control and user-defined tokens written in it are those tokens (raw
// completions, /tokenize on request) or plain characters (everything that a message says).
enum class ParseSpecial : std::uint8_t { no, yes };

enum class TokenKind : std::uint8_t { normal, unknown, control, user_defined, unused, byte };

class Tokenizer {
  public:
    virtual ~Tokenizer() = default;
    // Ids of the pieces as one text: pieces join before the vocabulary splits them (a merge may
    // cross the border of two pieces), but no control or user-defined token takes a character of a
    // message.
    virtual std::vector<TokenId> encode(std::span<const PromptPiece> pieces) const = 0;
    std::vector<TokenId> encode(std::string_view text, ParseSpecial special) const;
    // The text that the ids stand for: their bytes, less what encode() added to the text itself
    // (sentencepiece vocabularies put a space before a text and after each control token).
    virtual std::string decode(std::span<const TokenId> ids) const = 0;
    // The bytes of one token (may end inside a UTF-8 sequence); control tokens give their text.
    virtual std::string_view bytes(TokenId id) const = 0;
    virtual TokenKind kind(TokenId id) const = 0;
    virtual std::size_t size() const = 0;
    virtual std::vector<TokenId> end_ids() const = 0;  // eos, eot, eom of the file
    // The id of a control or user-defined token by its text; -1 when there is none.
    virtual TokenId special(std::string_view text) const = 0;
    // The file's rules for raw text: bos and eos are -1 when the file names none.
    struct EdgeRules {
        TokenId bos = -1;
        TokenId eos = -1;
        bool add_bos = false;
        bool add_eos = false;
    };
    virtual EdgeRules edges() const = 0;
};

// Reads byte-level BPE ("gpt2") and sentencepiece BPE ("llama") vocabularies. A file carries no
// normaliser: none is applied. Refuses a vocabulary that is missing parts, and an unknown model or
// pre-tokeniser, by name.
Result<std::unique_ptr<Tokenizer>> make_tokenizer(const gguf::Header& header);

}  // namespace strata::serve
