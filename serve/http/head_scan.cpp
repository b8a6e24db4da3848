// Counts lines and bytes; never looks back.
#include "serve/http/head_scan.hpp"

#include <algorithm>

#include "serve/http/settings.hpp"

namespace strata::serve {

namespace {

constexpr std::size_t kLineEndBytes = 2;  // CR LF

}  // namespace

HeadState HeadScan::check_open_line(std::size_t length) const {
    if (!in_headers_) {
        return length > kRequestLineBytesMax ? HeadState::request_line_too_long
                                             : HeadState::incomplete;
    }
    if (length > kHeaderLineBytesMax) return HeadState::header_too_long;
    if (headers_bytes_ + length > kHeadersBytesMax) return HeadState::headers_too_long;
    return HeadState::incomplete;
}

HeadState HeadScan::take_line(std::string_view line) {
    const HeadState open = check_open_line(line.size());
    if (open != HeadState::incomplete) return open;
    if (!in_headers_) {
        in_headers_ = true;
        return HeadState::incomplete;
    }
    if (line.empty()) return HeadState::complete;
    if (line.front() == ' ' || line.front() == '\t') return HeadState::folded_header;
    headers_bytes_ += line.size() + kLineEndBytes;
    ++headers_;
    if (headers_ > kHeadersMax) return HeadState::too_many_headers;
    return headers_bytes_ > kHeadersBytesMax ? HeadState::headers_too_long : HeadState::incomplete;
}

HeadState HeadScan::scan(std::string_view bytes) {
    for (;;) {
        const std::size_t end = bytes.find('\n', std::max(searched_, line_start_));
        if (end == std::string_view::npos) {
            searched_ = bytes.size();
            // The CR of a line that is as long as allowed may be here already.
            std::string_view open = bytes.substr(line_start_);
            if (open.ends_with('\r')) open.remove_suffix(1);
            return check_open_line(open.size());
        }
        std::string_view line = bytes.substr(line_start_, end - line_start_);
        if (line.ends_with('\r')) line.remove_suffix(1);
        line_start_ = end + 1;
        const HeadState state = take_line(line);
        if (state != HeadState::incomplete) return state;
    }
}

}  // namespace strata::serve
