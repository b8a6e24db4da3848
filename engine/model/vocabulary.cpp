#include "engine/model/vocabulary.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "engine/model/metadata_keys.hpp"

namespace strata {
namespace {

constexpr std::int64_t kControlToken = 3;  // tokenizer.ggml.token_type

constexpr std::array<std::string_view, 3> kEndKeys = {"eos_token_id", "eot_token_id",
                                                      "eom_token_id"};
// Many files name only one of their end tokens in the metadata; the others are known by their text.
constexpr std::array<std::string_view, 6> kEndTexts = {
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<end_of_turn>", "<turn|>", "<|endoftext|>"};
// conversation-cache rule: the first of these that the vocabulary has as a control token opens a
// turn.
constexpr std::array<std::string_view, 4> kTurnOpenTexts = {"<|im_start|>", "<|start_header_id|>",
                                                            "<start_of_turn>", "<|turn>"};

struct Tokens {
    const std::vector<std::string>* texts = nullptr;  // null: the file has no vocabulary
    std::vector<bool> control;                        // by id

    // The first id with that text; -1 when there is none.
    TokenId find(std::string_view text, bool control_only) const {
        if (texts == nullptr) return -1;
        for (std::size_t id = 0; id < texts->size(); ++id) {
            if ((*texts)[id] == text && (!control_only || control[id]))
                return static_cast<TokenId>(id);
        }
        return -1;
    }
};

Result<Tokens> read_tokens(const gguf::Header& header, std::int64_t vocabulary) {
    Tokens out;
    const gguf::Value* texts = header.find("tokenizer.ggml.tokens");
    if (texts == nullptr) return out;
    const auto* list = std::get_if<gguf::StringArray>(texts);
    if (list == nullptr)
        return refuse("metadata key tokenizer.ggml.tokens must be an array of strings");
    if (list->values.size() > static_cast<std::size_t>(vocabulary)) {
        return refuse("metadata key tokenizer.ggml.tokens has " +
                      std::to_string(list->values.size()) + " entries; allowed are the model's " +
                      std::to_string(vocabulary));
    }
    out.texts = &list->values;
    out.control.assign(list->values.size(), false);
    const gguf::Value* types = header.find("tokenizer.ggml.token_type");
    if (types == nullptr) return out;
    const auto* kinds = std::get_if<std::vector<std::int64_t>>(types);
    if (kinds == nullptr || kinds->size() != list->values.size()) {
        return refuse(
            "metadata key tokenizer.ggml.token_type must be an array of one signed integer for "
            "each of the " +
            std::to_string(list->values.size()) + " tokens");
    }
    for (std::size_t id = 0; id < kinds->size(); ++id)
        out.control[id] = (*kinds)[id] == kControlToken;
    return out;
}

void add_once(TokenIds& ids, TokenId id) {
    if (id >= 0 && std::find(ids.begin(), ids.end(), id) == ids.end()) ids.push_back(id);
}

}  // namespace

Result<VocabularyFacts> read_vocabulary(const gguf::Header& header, std::int64_t vocabulary) {
    const auto tokens = read_tokens(header, vocabulary);
    if (!tokens) return tokens.failure();
    VocabularyFacts out;
    MetadataKeys keys(header, "tokenizer.ggml.");
    for (const auto key : kEndKeys) {
        if (keys.has(key))
            add_once(out.end_ids, static_cast<TokenId>(keys.integer(key, {0, vocabulary - 1})));
    }
    MetadataKeys general(header, "general.");
    out.name = general.text("name", "");
    if (keys.refusal()) return Failure<Refusal>{*keys.refusal()};
    if (general.refusal()) return Failure<Refusal>{*general.refusal()};
    for (const auto text : kEndTexts) add_once(out.end_ids, tokens->find(text, true));
    for (const auto text : kTurnOpenTexts) {
        if (out.turn_open < 0) out.turn_open = tokens->find(text, true);
    }
    out.system_word = tokens->find("system", false);
    return out;
}

}  // namespace strata
