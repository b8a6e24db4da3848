// Token bytes in, text out: never half a UTF-8 sequence, thinking apart from the answer, stop
// strings held back and cut off. It works on bytes alone: a marker or stop string may come as one
// token or in pieces, and any way of cutting the stream gives the same text in the end.
//
// Rules:
//  1. A broken sequence becomes U+FFFD, once for each part that the Unicode standard names.
//  2. think_open counts only before anything but white space was said (of the answer or of the
//  thinking);
//     think_close only inside thinking.
//  3. White space after a marker up to the last line end in it (all of it when it has none) is not
//  part
//     of the text, so that a first line keeps its indentation; white space before think_close is
//     not either.
//  4. Stop strings apply to the answer alone. The one that is complete first counts; of several
//  complete
//     at the same byte, the one that began first. Nothing is emitted from its first byte on.
//  5. Held back is the shortest end of the text that could still become a marker, stop string or
//     dropped white space.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace strata::serve {

struct DecodedText {
    std::string reasoning;  // belongs to the thinking
    std::string answer;
};

struct StreamDecoderOptions {
    std::vector<std::string> stop;  // never part of the output; empty ones are ignored
    std::string think_open;         // "" = the model has no thinking
    std::string think_close;
    bool starts_in_thinking = false;  // the prompt ended inside a think block
};

// Finds the first end of one string in a stream, byte by byte (Knuth, Morris, Pratt 1977).
class StringMatcher {
  public:
    explicit StringMatcher(std::string wanted);
    // True when the string ends with this byte. Precondition: wanted is not empty.
    bool feed(char byte);
    // Bytes at the end of the stream that could begin the string.
    std::size_t pending() const { return matched_; }
    std::size_t size() const { return wanted_.size(); }
    const std::string& wanted() const { return wanted_; }
    void reset() { matched_ = 0; }

  private:
    std::string wanted_;
    std::vector<std::size_t> fallback_;  // longest border of each prefix
    std::size_t matched_ = 0;
};

class StreamDecoder {
  public:
    explicit StreamDecoder(StreamDecoderOptions options);
    // Bytes of one token. What can be shown now comes back; the rest is held.
    DecodedText feed(std::string_view bytes);
    // No more tokens: what was held and is valid; bytes of an unfinished sequence become U+FFFD.
    DecodedText finish();
    // The stop string that was met, once it was; nothing is emitted after it.
    const std::optional<std::string>& stopped_by() const { return stopped_by_; }
    // The text that comes next is thinking.
    bool thinking() const { return thinking_; }

  private:
    void take_characters(std::string_view characters, DecodedText& out);
    void take_start(char byte, DecodedText& out);
    void leave_start(DecodedText& out);
    void take_reasoning(char byte, DecodedText& out);
    void take_answer(char byte, DecodedText& out);
    void emit_ready(DecodedText& out);

    StreamDecoderOptions options_;
    std::vector<StringMatcher> stops_;
    StringMatcher close_;
    std::string bytes_;      // not yet a whole UTF-8 sequence
    std::string held_;       // said, but not yet emitted; at the start: white space
    std::string marker_;     // at the start: the beginning of think_open after held_
    std::size_t ready_ = 0;  // of held_, in thinking: bytes that may be emitted
    bool at_start_ = false;  // only white space was said since the stream or its last marker began
    bool thinking_ = false;
    bool after_marker_ = false;  // the white space at this start is not part of the text
    std::optional<std::string> stopped_by_;
};

}  // namespace strata::serve
