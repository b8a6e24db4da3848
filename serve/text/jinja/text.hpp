// Text of a template run: bytes that remember which of them came from a message. Immutable once
// built; shared between values. Also the meter that every run pays into: steps, live bytes, the
// first failure.
//
// Invariants of Text: marks are sorted, disjoint, not adjacent, not empty, and inside the bytes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace strata::serve::jinja {

struct Position {
    std::uint32_t line = 1;    // from 1
    std::uint32_t column = 1;  // from 1, in bytes
};

// What a run may use, and why it ended early. After the first failure nothing counts any more:
// every operation returns at once, so the walk over the tree unwinds by itself.
class Meter {
  public:
    struct Limits {
        std::uint64_t steps_max = 0;
        std::size_t text_bytes_max = 0;  // of one text
        std::size_t live_bytes_max = 0;  // of everything that is alive
    };
    explicit Meter(Limits limits) : limits_(limits) {}

    // False when the run is over. One step is about the work of one node of the tree.
    bool step(std::uint64_t count = 1);
    // Steps for copying or comparing `bytes` bytes.
    bool step_copy(std::size_t bytes) { return step(1 + bytes / kCopiedPerStep); }
    // Steps for looking at each character of `bytes` bytes.
    bool step_bytes(std::size_t bytes) { return step(1 + bytes / kBytesPerStep); }
    // Steps for a search whose worst case compares the needle at every byte.
    bool step_search(std::size_t bytes, std::size_t needle) {
        return step(1 + bytes / kBytesPerStep * (1 + needle / kNeedlePerStep));
    }
    bool fits_text(std::size_t bytes);
    void allocate(std::size_t bytes);
    void release(std::size_t bytes) { live_bytes_ -= bytes; }

    // Keeps the first one. The message is preceded by the place and by what was being done.
    void fail(std::string message);
    bool halted() const { return halted_; }
    const std::string& failure() const { return failure_; }

    // What is being done now, for the message: "filter 'join'" is ("filter", "join"). Both views
    // must live as long as the tree.
    void at(Position position, std::string_view construct = {}, std::string_view name = {}) {
        position_ = position;
        construct_ = construct;
        name_ = name;
    }

  private:
    static constexpr std::size_t kNeedlePerStep = 16;
    // Chosen so that a step of any kind takes about 0.1 microseconds, 10^7 of them a second.
    static constexpr std::size_t kCopiedPerStep = 1024;
    static constexpr std::size_t kBytesPerStep = 64;

    Limits limits_;
    std::uint64_t steps_ = 0;
    std::size_t live_bytes_ = 0;
    bool halted_ = false;
    std::string failure_;
    Position position_;
    std::string_view construct_;
    std::string_view name_;
};

// Pays for bytes while it lives. Without a meter (constants of the tree) it costs nothing.
class Paid {
  public:
    Paid(Meter* meter, std::size_t bytes) : meter_(meter), bytes_(bytes) {
        if (meter_ != nullptr) meter_->allocate(bytes_);
    }
    ~Paid() {
        if (meter_ != nullptr) meter_->release(bytes_);
    }
    Paid(const Paid&) = delete;
    Paid& operator=(const Paid&) = delete;
    void grow(std::size_t bytes) {
        bytes_ += bytes;
        if (meter_ != nullptr) meter_->allocate(bytes);
    }

  private:
    Meter* meter_;
    std::size_t bytes_;
};

// Bytes [begin, end) came from a message.
struct Mark {
    std::size_t begin = 0;
    std::size_t end = 0;
};

class Text {
  public:
    Text(Meter* meter, std::string bytes, std::vector<Mark> marks);
    // Text that outlives the run, all of it a message's or none; nothing is copied.
    Text(std::string_view borrowed, bool marked);
    Text(const Text&) = delete;
    Text& operator=(const Text&) = delete;

    std::string_view bytes() const { return bytes_; }
    std::size_t size() const { return bytes_.size(); }
    const std::vector<Mark>& marks() const { return marks_; }
    bool ascii() const { return ascii_; }
    std::size_t code_points() const;
    // Byte offset of a code point; size() past the end.
    std::size_t offset_of(std::size_t code_point) const;
    bool marked(std::size_t offset) const;

  private:
    Paid paid_;
    std::string own_;
    std::string_view bytes_;
    std::vector<Mark> marks_;
    bool ascii_ = true;
};
using TextPtr = std::shared_ptr<const Text>;

// Grows a text piece by piece. Past the meter's limits it stops growing and the meter has failed.
class TextBuilder {
  public:
    explicit TextBuilder(Meter& meter) : meter_(&meter) {}
    ~TextBuilder() { meter_->release(bytes_.size()); }
    TextBuilder(const TextBuilder&) = delete;
    TextBuilder& operator=(const TextBuilder&) = delete;
    void append(std::string_view bytes, bool marked = false);
    void append(const Text& text) { append(text, 0, text.size()); }
    // Bytes [begin, end) with their marks.
    void append(const Text& text, std::size_t begin, std::size_t end);
    std::size_t size() const { return bytes_.size(); }
    std::string_view bytes() const { return bytes_; }
    TextPtr finish();

  private:
    void mark_last(std::size_t bytes);

    Meter* meter_;
    std::string bytes_;
    std::vector<Mark> marks_;
};

}  // namespace strata::serve::jinja
