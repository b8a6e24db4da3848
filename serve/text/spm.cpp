// Reading scores of a stranger's file, and the merges over one part of a text.
#include "serve/text/spm.hpp"

#include <algorithm>
#include <cmath>

#include "serve/text/bpe.hpp"
#include "serve/text/unicode.hpp"

namespace strata::serve {

Result<SpmVocabulary> SpmVocabulary::read(const gguf::Header& header) {
    auto tokens = TokenTable::read(header, Spelling::sentencepiece);
    if (!tokens) return tokens.failure();
    SpmVocabulary out(std::move(*tokens));
    if (auto status = out.read_scores(header); !status) return status.failure();
    if (auto status = out.find_bytes(); !status) return status.failure();
    out.find_joins();
    return out;
}

Status<> SpmVocabulary::read_scores(const gguf::Header& header) {
    constexpr std::string_view kKey = "tokenizer.ggml.scores";
    const gguf::Value* value = header.find(kKey);
    if (value == nullptr) return refuse("the file has no " + std::string(kKey));
    const auto* numbers = std::get_if<std::vector<double>>(value);
    if (numbers == nullptr) return refuse(std::string(kKey) + " is not an array of floats");
    if (numbers->size() != tokens_.size()) {
        return refuse(std::string(kKey) + " has " + std::to_string(numbers->size()) +
                      " entries, the vocabulary has " + std::to_string(tokens_.size()) + " tokens");
    }
    scores_.reserve(numbers->size());
    for (const double number : *numbers) {
        if (std::isnan(number)) {
            return refuse(std::string(kKey) + "[" + std::to_string(scores_.size()) +
                          "] is not a number");
        }
        scores_.push_back(static_cast<float>(number));
    }
    return Done{};
}

Status<> SpmVocabulary::find_bytes() {
    byte_ids_.fill(-1);
    for (TokenId id = 0; static_cast<std::size_t>(id) < tokens_.size(); ++id) {
        if (tokens_.kind(id) != TokenKind::byte || tokens_.bytes(id).size() != 1) continue;
        TokenId& known = byte_ids_[static_cast<std::uint8_t>(tokens_.bytes(id)[0])];
        if (known < 0) known = id;
    }
    const auto* missing = std::find(byte_ids_.begin(), byte_ids_.end(), -1);
    if (missing == byte_ids_.end()) return Done{};
    return refuse("the vocabulary has no token for byte " +
                  std::to_string(missing - byte_ids_.begin()));
}

void SpmVocabulary::find_joins() {
    for (TokenId id = 0; static_cast<std::size_t>(id) < tokens_.size(); ++id) {
        const std::string_view piece = tokens_.bytes(id);
        if (piece.empty() || tokens_.word(piece) != id) continue;
        char32_t left = 0;
        for (std::size_t at = 0; at < piece.size();) {
            const Utf8Step step = utf8_step(piece, at);
            if (at != 0) joins_.insert(join_key(left, step.code));
            left = step.code;
            at += step.bytes;
        }
    }
}

void SpmMerger::append(std::string_view text, std::vector<TokenId>& out) {
    while (!text.empty()) {
        const std::size_t end = part_end(text);
        append_part(text.substr(0, end), out);
        text.remove_prefix(end);
    }
}

std::size_t SpmMerger::part_end(std::string_view text) const {
    Utf8Step last = utf8_step(text, 0);
    std::size_t at = last.bytes;
    while (at < text.size() && at < kWordBytesMax - last.bytes) {
        const Utf8Step next = utf8_step(text, at);
        if (!vocabulary_.may_join(last.code, next.code)) break;
        at += next.bytes;
        last = next;
    }
    return at;
}

void SpmMerger::append_part(std::string_view part, std::vector<TokenId>& out) {
    pieces_.clear();
    heap_.clear();
    undo_.clear();
    for (std::size_t at = 0; at < part.size();) {
        const auto bytes = utf8_step(part, at).bytes;
        const auto index = static_cast<std::int32_t>(pieces_.size());
        at += bytes;
        pieces_.push_back({static_cast<std::uint32_t>(at - bytes), bytes, index - 1,
                           at < part.size() ? index + 1 : -1});
    }
    merge_all(part);
    for (std::int32_t i = 0; i >= 0; i = pieces_[static_cast<std::size_t>(i)].next) {
        const Piece& piece = pieces_[static_cast<std::size_t>(i)];
        append_piece(part.substr(piece.begin, piece.bytes), out);
    }
}

void SpmMerger::propose(std::string_view part, std::int32_t left) {
    if (left < 0) return;
    const Piece& piece = pieces_[static_cast<std::size_t>(left)];
    if (piece.next < 0) return;
    const std::uint32_t bytes = piece.bytes + pieces_[static_cast<std::size_t>(piece.next)].bytes;
    if (bytes > vocabulary_.tokens().word_bytes_max()) return;
    const std::string_view joined = part.substr(piece.begin, bytes);
    const TokenId id = vocabulary_.tokens().word(joined);
    if (id < 0) return;
    if (vocabulary_.tokens().kind(id) == TokenKind::unused) {
        undo_.insert_or_assign(joined, piece.bytes);
    }
    heap_.push_back({vocabulary_.score(id), left, bytes});
    std::push_heap(heap_.begin(), heap_.end());
}

void SpmMerger::merge_all(std::string_view part) {
    for (std::size_t i = 0; i < pieces_.size(); ++i) propose(part, static_cast<std::int32_t>(i));
    while (!heap_.empty()) {
        const Candidate best = heap_.front();
        std::pop_heap(heap_.begin(), heap_.end());
        heap_.pop_back();
        Piece& left = pieces_[static_cast<std::size_t>(best.left)];
        if (left.bytes == 0 || left.next < 0) continue;
        Piece& right = pieces_[static_cast<std::size_t>(left.next)];
        if (left.bytes + right.bytes != best.bytes) continue;  // merged since it was proposed
        left.bytes += right.bytes;
        right.bytes = 0;
        left.next = right.next;
        if (left.next >= 0) pieces_[static_cast<std::size_t>(left.next)].previous = best.left;
        propose(part, left.previous);
        propose(part, best.left);
    }
}

// Pieces that may not stay are split as they were joined; their halves are shorter.
void SpmMerger::append_piece(std::string_view piece, std::vector<TokenId>& out) const {
    const TokenId id = vocabulary_.tokens().word(piece);
    if (id >= 0 && vocabulary_.tokens().kind(id) != TokenKind::unused) {
        out.push_back(id);
        return;
    }
    if (const auto undo = undo_.find(piece); undo != undo_.end()) {
        append_piece(piece.substr(0, undo->second), out);
        append_piece(piece.substr(undo->second), out);
        return;
    }
    for (const char byte : piece)
        out.push_back(vocabulary_.byte_id(static_cast<std::uint8_t>(byte)));
}

}  // namespace strata::serve
