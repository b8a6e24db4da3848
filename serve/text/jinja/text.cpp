// Marks under slicing and joining, and the meter's bookkeeping.
#include "serve/text/jinja/text.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "serve/text/unicode.hpp"

namespace strata::serve::jinja {
namespace {

// Eight bytes at a time: every text is looked at once, however it came to be.
bool is_ascii(std::string_view text) {
    constexpr std::uint64_t kHighBits = 0x8080808080808080ULL;
    std::uint64_t high = 0;
    std::size_t at = 0;
    for (; at + sizeof(std::uint64_t) <= text.size(); at += sizeof(std::uint64_t)) {
        std::uint64_t word = 0;
        std::memcpy(&word, text.data() + at, sizeof(word));
        high |= word;
    }
    const bool rest = std::all_of(text.begin() + static_cast<std::ptrdiff_t>(at), text.end(),
                                  [](char c) { return c >= 0; });
    return rest && (high & kHighBits) == 0;
}

}  // namespace

bool Meter::step(std::uint64_t count) {
    steps_ += count;
    if (steps_ > limits_.steps_max) {
        fail("the template takes more than " + std::to_string(limits_.steps_max) + " steps");
    }
    return !halted_;
}

bool Meter::fits_text(std::size_t bytes) {
    if (bytes > limits_.text_bytes_max) {
        fail("a text grows beyond " + std::to_string(limits_.text_bytes_max) + " bytes");
    }
    return !halted_;
}

void Meter::allocate(std::size_t bytes) {
    live_bytes_ += bytes;
    if (live_bytes_ > limits_.live_bytes_max) {
        fail("the template holds more than " + std::to_string(limits_.live_bytes_max) +
             " bytes at once");
    }
}

void Meter::fail(std::string message) {
    if (halted_) return;
    halted_ = true;
    failure_ = "line " + std::to_string(position_.line) + ", column " +
               std::to_string(position_.column) + ": ";
    failure_ += construct_;
    if (!name_.empty()) failure_.append(" '").append(name_.substr(0, 80)).append("'");
    if (!construct_.empty()) failure_ += ": ";
    failure_ += message;
}

Text::Text(Meter* meter, std::string bytes, std::vector<Mark> marks)
    : paid_(meter, sizeof(Text) + bytes.capacity() + marks.capacity() * sizeof(Mark)),
      own_(std::move(bytes)),
      bytes_(own_),
      marks_(std::move(marks)) {
    ascii_ = is_ascii(bytes_);
}

Text::Text(std::string_view borrowed, bool marked) : paid_(nullptr, 0), bytes_(borrowed) {
    if (marked && !borrowed.empty()) marks_.push_back({0, borrowed.size()});
    ascii_ = is_ascii(borrowed);
}

std::size_t Text::code_points() const {
    return ascii_ ? bytes_.size() : count_code_points(bytes_);
}

std::size_t Text::offset_of(std::size_t code_point) const {
    if (ascii_) return std::min(code_point, bytes_.size());
    std::size_t at = 0;
    for (; code_point > 0 && at < bytes_.size(); --code_point) {
        // As count_code_points does: a character begins at every byte that is no continuation.
        do {
            ++at;
        } while (at < bytes_.size() && (static_cast<std::uint8_t>(bytes_[at]) & 0xC0U) == 0x80U);
    }
    return at;
}

bool Text::marked(std::size_t offset) const {
    const auto after = std::upper_bound(marks_.begin(), marks_.end(), offset,
                                        [](std::size_t o, const Mark& m) { return o < m.end; });
    return after != marks_.end() && after->begin <= offset;
}

void TextBuilder::mark_last(std::size_t bytes) {
    const std::size_t begin = bytes_.size() - bytes;
    if (!marks_.empty() && marks_.back().end == begin) {
        marks_.back().end = bytes_.size();
    } else {
        marks_.push_back({begin, bytes_.size()});
    }
}

void TextBuilder::append(std::string_view bytes, bool marked) {
    if (bytes.empty() || !meter_->step_copy(bytes.size())) return;
    if (!meter_->fits_text(bytes_.size() + bytes.size())) return;
    bytes_ += bytes;
    meter_->allocate(bytes.size());
    if (marked) mark_last(bytes.size());
}

void TextBuilder::append(const Text& text, std::size_t begin, std::size_t end) {
    const auto& marks = text.marks();
    auto mark = std::upper_bound(marks.begin(), marks.end(), begin,
                                 [](std::size_t o, const Mark& m) { return o < m.end; });
    for (std::size_t at = begin; at < end && !meter_->halted();) {
        const bool inside = mark != marks.end() && mark->begin <= at;
        const std::size_t border = mark == marks.end() ? end : inside ? mark->end : mark->begin;
        const std::size_t stop = std::min(border, end);
        append(text.bytes().substr(at, stop - at), inside);
        if (inside) ++mark;
        at = stop;
    }
}

TextPtr TextBuilder::finish() {
    meter_->release(bytes_.size());
    std::string bytes = std::exchange(bytes_, {});
    return std::make_shared<const Text>(meter_, std::move(bytes), std::exchange(marks_, {}));
}

}  // namespace strata::serve::jinja
