// The decoder as a machine over bytes of whole characters: start (white space or a think marker may
// come), reasoning, answer. Every decision depends on the bytes so far, never on how they were fed.
#include "serve/text/stream_decoder.hpp"

#include <algorithm>
#include <utility>

#include "serve/text/unicode.hpp"

namespace strata::serve {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD
constexpr std::string_view kBlank = " \t\r\n";

bool is_blank(char byte) {
    return kBlank.find(byte) != std::string_view::npos;
}

// What rule 3 leaves of the white space that follows a marker.
std::string without_lead(const std::string& blanks) {
    const std::size_t line_end = blanks.rfind('\n');
    return line_end == std::string::npos ? std::string() : blanks.substr(line_end + 1);
}

}  // namespace

StringMatcher::StringMatcher(std::string wanted)
    : wanted_(std::move(wanted)), fallback_(wanted_.size()) {
    std::size_t border = 0;
    for (std::size_t i = 1; i < wanted_.size(); ++i) {
        while (border > 0 && wanted_[i] != wanted_[border]) border = fallback_[border - 1];
        if (wanted_[i] == wanted_[border]) ++border;
        fallback_[i] = border;
    }
}

bool StringMatcher::feed(char byte) {
    if (matched_ == wanted_.size()) matched_ = fallback_[matched_ - 1];
    while (matched_ > 0 && wanted_[matched_] != byte) matched_ = fallback_[matched_ - 1];
    if (wanted_[matched_] == byte) ++matched_;
    return matched_ == wanted_.size();
}

StreamDecoder::StreamDecoder(StreamDecoderOptions options)
    : options_(std::move(options)),
      close_(options_.think_close),
      at_start_(!options_.think_open.empty() && !options_.think_close.empty()) {
    thinking_ = after_marker_ = at_start_ && options_.starts_in_thinking;
    for (const std::string& stop : options_.stop) {
        if (!stop.empty()) stops_.emplace_back(stop);
    }
}

DecodedText StreamDecoder::feed(std::string_view bytes) {
    DecodedText out;
    if (stopped_by_) return out;
    bytes_ += bytes;
    std::string characters;
    std::size_t at = 0;
    while (at < bytes_.size()) {
        const Utf8Step step = utf8_step(bytes_, at);
        if (step.kind == Utf8Kind::incomplete) break;
        characters += step.kind == Utf8Kind::valid ? std::string_view(bytes_).substr(at, step.bytes)
                                                   : kReplacement;
        at += step.bytes;
    }
    bytes_.erase(0, at);
    take_characters(characters, out);
    emit_ready(out);
    return out;
}

DecodedText StreamDecoder::finish() {
    DecodedText out;
    if (stopped_by_) return out;
    if (!bytes_.empty()) take_characters(kReplacement, out);
    bytes_.clear();
    if (at_start_ && !stopped_by_) leave_start(out);
    (thinking_ ? out.reasoning : out.answer) += held_;
    held_.clear();
    return out;
}

void StreamDecoder::take_characters(std::string_view characters, DecodedText& out) {
    for (const char byte : characters) {
        if (stopped_by_) return;
        if (at_start_) {
            take_start(byte, out);
        } else if (thinking_) {
            take_reasoning(byte, out);
        } else {
            take_answer(byte, out);
        }
    }
}

void StreamDecoder::take_start(char byte, DecodedText& out) {
    if (marker_.empty() && is_blank(byte)) {
        held_ += byte;
        return;
    }
    marker_ += byte;
    if (marker_ == options_.think_open) {
        held_.clear();
        marker_.clear();
        thinking_ = after_marker_ = true;
    } else if (!options_.think_open.starts_with(marker_)) {
        leave_start(out);
    }
}

// No think_open comes any more: what was held is text like any other.
void StreamDecoder::leave_start(DecodedText& out) {
    at_start_ = false;
    const std::string text = (after_marker_ ? without_lead(held_) : held_) + marker_;
    after_marker_ = false;
    held_.clear();
    marker_.clear();
    take_characters(text, out);
}

void StreamDecoder::take_reasoning(char byte, DecodedText& out) {
    const std::size_t pending_before = close_.pending();
    held_ += byte;
    if (close_.feed(byte)) {
        held_.resize(held_.size() - close_.size());
        held_.resize(held_.find_last_not_of(kBlank) + 1);  // npos + 1 is 0
        out.reasoning += held_;
        held_.clear();
        close_.reset();
        ready_ = 0;
        thinking_ = false;
        at_start_ = after_marker_ = true;
        return;
    }
    if (is_blank(byte) && pending_before == 0) return;
    std::size_t said = held_.size() - close_.pending();
    while (said > ready_ && is_blank(held_[said - 1])) --said;
    ready_ = std::max(ready_, said);
}

void StreamDecoder::take_answer(char byte, DecodedText& out) {
    held_ += byte;
    const StringMatcher* met = nullptr;
    for (StringMatcher& stop : stops_) {
        if (stop.feed(byte) && (met == nullptr || stop.size() > met->size())) met = &stop;
    }
    if (met == nullptr) return;
    held_.resize(held_.size() - met->size());
    out.answer += held_;
    held_.clear();
    stopped_by_ = met->wanted();
}

// Emits of held_ what no continuation of the stream can turn into something else.
void StreamDecoder::emit_ready(DecodedText& out) {
    if (at_start_ || stopped_by_) return;
    if (!thinking_) {
        std::size_t keep = 0;
        for (const StringMatcher& stop : stops_) keep = std::max(keep, stop.pending());
        ready_ = held_.size() - keep;
    }
    (thinking_ ? out.reasoning : out.answer).append(held_, 0, ready_);
    held_.erase(0, ready_);
    ready_ = 0;
}

}  // namespace strata::serve
