// poll before each piece. A pipe that polls writable takes PIPE_BUF bytes without waiting.
#include "serve/log_output.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>

#include <poll.h>
#include <unistd.h>

#include "serve/supervisor/defences.hpp"

namespace strata::serve {

namespace {

constexpr std::size_t kPieceBytes = PIPE_BUF;

bool takes_bytes(int fd) {
    if (!defended(Defence::log_never_blocks)) return true;
    pollfd ready{fd, POLLOUT, 0};
    return ::poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0;
}

}  // namespace

bool LogOutput::put(std::string_view bytes) {
    const std::size_t whole = bytes.size();
    while (!bytes.empty()) {
        const bool takes = takes_bytes(fd_);
        const ssize_t written =
            takes ? ::write(fd_, bytes.data(), std::min(bytes.size(), kPieceBytes)) : -1;
        if (takes && written < 0 && errno == EINTR) continue;
        if (written <= 0) {
            cut_ = cut_ || bytes.size() < whole;
            return false;
        }
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

void LogOutput::write(std::string_view text) {
    if (dropped_ > 0) {
        const std::string note = (cut_ ? "\n" : "") + note_(dropped_);
        if (!put(note)) {
            ++dropped_;
            return;
        }
        dropped_ = 0;
        cut_ = false;
    }
    if (!put(text)) ++dropped_;
}

}  // namespace strata::serve
