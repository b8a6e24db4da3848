// See engine/host/signals.hpp.
#include "engine/host/signals.hpp"

#include <cerrno>
#include <cstring>
#include <utility>

#include <signal.h>
#include <sys/signalfd.h>
#include <unistd.h>

namespace strata {

namespace {

struct LastWords {
    std::string message;
    std::string last_line;
    int output = -1;
    int status = 0;
};

// A signal handler takes no argument of ours; written once, before the handler is installed.
LastWords& last_words() {
    static LastWords words;
    return words;
}

// Only async-signal-safe calls.
void on_bus_error(int) {
    const LastWords& words = last_words();
    [[maybe_unused]] ssize_t ignored =
        ::write(STDERR_FILENO, words.message.data(), words.message.size());
    ignored = ::write(words.output, words.last_line.data(), words.last_line.size());
    ::_exit(words.status);
}

}  // namespace

Result<int> claim_signals() {
    struct sigaction ignore {};
    ignore.sa_handler = SIG_IGN;
    ::sigaction(SIGPIPE, &ignore, nullptr);
    sigset_t ends;
    sigemptyset(&ends);
    for (const int number : {SIGTERM, SIGINT, SIGHUP}) sigaddset(&ends, number);
    const int blocked = ::pthread_sigmask(SIG_BLOCK, &ends, nullptr);
    const int descriptor = ::signalfd(-1, &ends, SFD_CLOEXEC | SFD_NONBLOCK);
    if (blocked != 0 || descriptor < 0) {
        return refuse(std::string("signals cannot be waited for: ") + std::strerror(errno));
    }
    return descriptor;
}

void die_loudly_on_bus_error(int output, std::string message, std::string last_line, int status) {
    last_words() = {std::move(message), std::move(last_line), output, status};
    last_words();  // built before the handler could need it
    struct sigaction loud {};
    loud.sa_handler = on_bus_error;
    ::sigaction(SIGBUS, &loud, nullptr);
}

}  // namespace strata
