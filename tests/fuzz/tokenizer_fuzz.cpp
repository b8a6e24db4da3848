// Any bytes, cut into template and message pieces: the ids decode to the text, and no control token
// holds a byte of a message. The decoder of answers gets the same bytes in two cuts and must say
// the same.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "serve/text/stream_decoder.hpp"
#include "serve/text/tokenizer.hpp"
#include "serve/text/unicode.hpp"

namespace {

using strata::serve::PromptPiece;
using strata::serve::Tokenizer;

std::string written_byte(unsigned byte) {
    const auto printable = [](unsigned b) {
        return (b >= 33 && b <= 126) || (b >= 161 && b != 173);
    };
    char32_t code = byte;
    if (!printable(byte)) {
        code = 0x100;
        for (unsigned b = 0; b < byte; ++b) code += printable(b) ? 0U : 1U;
    }
    std::string out;
    strata::serve::append_utf8(out, code);
    return out;
}

std::unique_ptr<Tokenizer> make(const std::string& pre) {
    strata::gguf::StringArray tokens;
    for (unsigned byte = 0; byte < 256; ++byte) tokens.values.push_back(written_byte(byte));
    const strata::gguf::StringArray merges = {
        {"a b", "a a", "aa aa", "ab ab", "\u0120 a", "\u010a \u010a", "\u0120 \u0120", "< a"}};
    for (const std::string& merge : merges.values) {
        std::string joined = merge;
        joined.erase(joined.find(' '), 1);
        tokens.values.push_back(joined);
    }
    std::vector<std::int64_t> types(tokens.values.size(), 1);
    for (const char* special : {"<a>", "<ab>", "</a>", "a<"}) {
        tokens.values.emplace_back(special);
        types.push_back(types.size() % 2 == 0 ? 3 : 4);
    }
    strata::gguf::Header header;
    header.metadata["tokenizer.ggml.model"] = std::string("gpt2");
    header.metadata["tokenizer.ggml.pre"] = pre;
    header.metadata["tokenizer.ggml.tokens"] = tokens;
    header.metadata["tokenizer.ggml.token_type"] = types;
    header.metadata["tokenizer.ggml.merges"] = merges;
    auto tokenizer = strata::serve::make_tokenizer(header);
    if (!tokenizer) std::abort();
    return std::move(*tokenizer);
}

std::unique_ptr<Tokenizer> make_spm(bool adds_space) {
    strata::gguf::StringArray tokens = {{"<a>", "<ab>", "</a>", "a<"}};
    std::vector<std::int64_t> types = {3, 4, 3, 4};
    for (unsigned byte = 0; byte < 256; ++byte) {
        constexpr const char* kDigits = "0123456789ABCDEF";
        tokens.values.push_back(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
        types.push_back(6);
    }
    for (const char* piece : {"a", "b", "ab", "aa", "aaaa", "\u2581", "\u2581a", "\u2581\u2581",
                              "<", "<a", ">", "\u00e9", "\u00e9a", "aab", "bb"}) {
        tokens.values.emplace_back(piece);
        types.push_back(types.size() % 7 == 0 ? 5 : 1);
    }
    std::vector<double> scores;
    for (std::size_t i = 0; i < types.size(); ++i) scores.push_back(-static_cast<double>(i / 2));
    strata::gguf::Header header;
    header.metadata["tokenizer.ggml.model"] = std::string("llama");
    header.metadata["tokenizer.ggml.tokens"] = tokens;
    header.metadata["tokenizer.ggml.token_type"] = types;
    header.metadata["tokenizer.ggml.scores"] = scores;
    header.metadata["tokenizer.ggml.add_space_prefix"] = adds_space;
    auto tokenizer = strata::serve::make_tokenizer(header);
    if (!tokenizer) std::abort();
    return std::move(*tokenizer);
}

// Byte 0xF5 is no part of UTF-8: it ends a piece, and the piece's length says whose it is.
std::vector<PromptPiece> cut(const std::string& bytes) {
    std::vector<PromptPiece> pieces(1);
    for (const char byte : bytes) {
        if (byte == '\xF5') {
            pieces.push_back({"", !pieces.back().from_message});
        } else {
            pieces.back().text += byte;
        }
    }
    return pieces;
}

void check_tokenizer(const Tokenizer& tokenizer, const std::vector<PromptPiece>& pieces) {
    std::string text;
    std::vector<bool> from_message;
    for (const PromptPiece& piece : pieces) {
        text += piece.text;
        from_message.insert(from_message.end(), piece.text.size(), piece.from_message);
    }
    std::size_t at = 0;
    for (const auto id : tokenizer.encode(pieces)) {
        const std::string_view bytes = tokenizer.bytes(id);
        if (text.compare(at, bytes.size(), bytes) != 0) std::abort();
        const bool normal = tokenizer.kind(id) == strata::serve::TokenKind::normal;
        for (std::size_t i = at; i < at + bytes.size(); ++i) {
            if (!normal && from_message[i]) std::abort();
        }
        at += bytes.size();
    }
    if (at != text.size()) std::abort();
}

// With a space that encode() adds the ids are not the text byte by byte; decoding undoes it. U+2581
// is a space there.
void check_spm(const Tokenizer& tokenizer, const std::string& text) {
    if (text.find("\u2581") != std::string::npos) return;
    for (const auto special : {strata::serve::ParseSpecial::no, strata::serve::ParseSpecial::yes}) {
        if (tokenizer.decode(tokenizer.encode(text, special)) != text) std::abort();
    }
}

std::string decoded(const std::string& bytes, std::size_t step) {
    strata::serve::StreamDecoder decoder(
        {{"aa", "b\n", "ab"}, "<a>", "</a>", bytes.size() % 2 == 0});
    std::string reasoning;
    std::string answer;
    const auto add = [&](const strata::serve::DecodedText& text) {
        reasoning += text.reasoning;
        answer += text.answer;
    };
    for (std::size_t at = 0; at < bytes.size(); at += step)
        add(decoder.feed(std::string_view(bytes).substr(at, step)));
    add(decoder.finish());
    if (!strata::serve::is_utf8(reasoning) || !strata::serve::is_utf8(answer)) std::abort();
    return reasoning + "|" + answer + "|" + decoder.stopped_by().value_or("");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    static const std::vector<std::unique_ptr<Tokenizer>> kTokenizers = [] {
        std::vector<std::unique_ptr<Tokenizer>> all;
        for (const char* pre : {"gpt-2", "smollm", "llama-bpe", "qwen2", "qwen35", "gpt-4o",
                                "tekken", "deepseek-v3", "deepseek-coder", "deepseek-llm"}) {
            all.push_back(make(pre));
        }
        return all;
    }();
    static const auto kSpm = make_spm(true);
    static const auto kSpmPlain = make_spm(false);
    const std::string text(reinterpret_cast<const char*>(bytes), size);
    for (const auto& tokenizer : kTokenizers) check_tokenizer(*tokenizer, cut(text));
    check_spm(*kSpm, text);
    check_spm(*kSpmPlain, text);
    const std::string whole = decoded(text, std::max<std::size_t>(size, 1));
    for (const std::size_t step : {1U, 2U, 3U, 7U}) {
        if (decoded(text, step) != whole) std::abort();
    }
    return 0;
}
