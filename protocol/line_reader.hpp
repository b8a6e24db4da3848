// LineReader: bytes of a stream into whole lines, whatever the cuts between reads. It bounds what a
// line may hold in memory; it does not know what a line means.
//
// Invariants: (1) the lines handed out depend on the bytes alone, not on how they were cut; (2) at
// most bytes_max bytes are kept between two calls; (3) after a line that was too long the reader is
// in step again at the next LF; (4) bytes behind the last LF are never a line.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace strata::protocol {

// 262,144 ids of 7 digits fit 32 times.
inline constexpr std::size_t kCommandLineBytesMax = std::size_t{64} << 20;
inline constexpr std::size_t kEventLineBytesMax = std::size_t{1} << 20;
// What is kept of an over-long line: enough for its word, its id and its other names.
inline constexpr std::size_t kOverlongHeadBytes = 1024;

struct RawLine {
    std::string_view
        text;  // without LF (a CR before it is the parser's); valid during the call only
    bool overlong = false;  // the line was longer than the limit and is dropped; text is its head
};

class LineReader {
  public:
    using Sink = std::function<void(const RawLine&)>;

    // `bytes_max` counts a line's bytes before its LF.
    explicit LineReader(std::size_t bytes_max);

    // Calls `sink` for every line that `bytes` completes, in order; blank lines are passed over. An
    // over-long line is reported once, as soon as it is known to be one.
    void feed(std::string_view bytes, const Sink& sink);

    // At the end of the stream: true if bytes without an LF are left. They are dropped.
    bool finish();

    std::size_t held_bytes() const { return held_.size(); }

  private:
    void take(std::string_view part, bool complete, const Sink& sink);

    std::size_t bytes_max_;
    std::string held_;       // the beginning of a line whose LF has not come
    bool dropping_ = false;  // inside an over-long line that was reported
};

}  // namespace strata::protocol
