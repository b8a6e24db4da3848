// Token bytes in, text events out: never half a UTF-8 sequence, thinking apart from the answer,
// stop strings held back and cut off.
#pragma once

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
    std::vector<std::string> stop;  // never part of the output
    std::string think_open;         // "" = the model has no thinking
    std::string think_close;
    bool starts_in_thinking = false;  // the prompt ended inside a think block
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
    // The next bytes belong to the thinking, as far as is decided yet.
    bool in_thinking() const { return thinking_; }

  private:
    StreamDecoderOptions options_;
    std::string bytes_;  // not yet a whole UTF-8 sequence
    std::string held_;   // whole characters that could begin a marker or stop string
    bool thinking_ = false;
    bool trim_next_ = false;  // whitespace after a think marker is not part of the text
    std::optional<std::string> stopped_by_;
};

}  // namespace strata::serve
