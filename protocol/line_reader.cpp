#include "protocol/line_reader.hpp"

#include <algorithm>
#include <utility>

namespace strata::protocol {
namespace {

bool is_blank(std::string_view line) {
    return line.find_first_not_of(" \r") == std::string_view::npos;
}

}  // namespace

LineReader::LineReader(std::size_t bytes_max) : bytes_max_(bytes_max) {}

void LineReader::feed(std::string_view bytes, const Sink& sink) {
    while (!bytes.empty()) {
        const std::size_t lf = bytes.find('\n');
        const bool complete = lf != std::string_view::npos;
        take(bytes.substr(0, lf), complete, sink);
        bytes.remove_prefix(complete ? lf + 1 : bytes.size());
    }
}

void LineReader::take(std::string_view part, bool complete, const Sink& sink) {
    if (dropping_) {
        dropping_ = !complete;
        return;
    }
    if (part.size() > bytes_max_ - held_.size()) {
        const std::size_t head_bytes = std::min(kOverlongHeadBytes, bytes_max_);
        std::string head = std::exchange(held_, {});
        head.resize(std::min(head.size(), head_bytes));
        head.append(part.substr(0, head_bytes - head.size()));
        dropping_ = !complete;
        sink({.text = head, .overlong = true});
        return;
    }
    if (!complete) {
        held_.append(part);
        return;
    }
    if (held_.empty()) {
        if (!is_blank(part)) sink({.text = part});
        return;
    }
    held_.append(part);
    // Moved out, so that one long prompt does not hold its megabytes for ever.
    const std::string line = std::exchange(held_, {});
    if (!is_blank(line)) sink({.text = line});
}

bool LineReader::finish() {
    dropping_ = false;
    return !std::exchange(held_, {}).empty();
}

}  // namespace strata::protocol
