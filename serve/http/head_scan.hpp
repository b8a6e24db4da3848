// Where a request's head ends, and whether it keeps the limits, while its bytes come in. Pure; what
// the lines mean is the strict parser's to say.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace strata::serve {

enum class HeadState : std::uint8_t {
    incomplete,
    complete,
    request_line_too_long,  // 414
    header_too_long,        // 431, as the next two
    headers_too_long,
    too_many_headers,
    folded_header,  // 400: a continuation line (obsolete, and a way to smuggle)
};

class HeadScan {
  public:
    // `bytes`: everything of this request that has come so far; grows from call to call.
    HeadState scan(std::string_view bytes);
    // Bytes of the head with its empty line; valid when complete.
    std::size_t size() const { return line_start_; }
    void reset() { *this = HeadScan(); }

  private:
    HeadState take_line(std::string_view line);
    HeadState check_open_line(std::size_t length) const;

    std::size_t line_start_ = 0;  // of the line that is not yet whole
    std::size_t searched_ = 0;    // no LF before this
    bool in_headers_ = false;     // the request line is complete
    std::size_t headers_ = 0;
    std::size_t headers_bytes_ = 0;
};

}  // namespace strata::serve
