// See engine/host/output.hpp.
#include "engine/host/output.hpp"

#include <cerrno>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

namespace strata {

namespace {
constexpr int kFirstPrivateFd = 3;

// A descriptor that is closed becomes one of /dev/null.
void open_if_closed(int descriptor, int flags) {
    if (::fcntl(descriptor, F_GETFD) >= 0) return;
    const int nowhere = ::open("/dev/null", flags);
    if (nowhere >= 0 && nowhere != descriptor) {
        ::dup2(nowhere, descriptor);
        ::close(nowhere);
    }
}
}  // namespace

Result<int> claim_stdout() {
    const int claimed = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, kFirstPrivateFd);
    if (claimed < 0) return refuse(std::string("stdout cannot be used: ") + std::strerror(errno));
    open_if_closed(STDIN_FILENO, O_RDONLY);
    open_if_closed(STDERR_FILENO, O_WRONLY);
    if (::dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
        return refuse(std::string("stdout cannot be moved away: ") + std::strerror(errno));
    }
    return claimed;
}

bool LineOutput::write(std::string_view lines) {
    // A pipe takes more than PIPE_BUF bytes in pieces: without the lock another group gets between.
    const std::lock_guard writing(writing_);
    while (!lines.empty() && !broken_) {
        const ssize_t written = ::write(descriptor_, lines.data(), lines.size());
        if (written >= 0) {
            lines.remove_prefix(static_cast<std::size_t>(written));
        } else if (errno == EAGAIN) {
            // The descriptor shares its flags with whoever made it non-blocking.
            pollfd room{descriptor_, POLLOUT, 0};
            ::poll(&room, 1, -1);
        } else if (errno != EINTR) {
            broken_ = true;
        }
    }
    return !broken_;
}

}  // namespace strata
