// A program that hosts a supervisor, so that a test can kill it. It prints one line on stdout as
// things happen: "engine PID", "ready", "progress", "token", "ended", "port N", "survived N".
//
//   supervisor_host [--requests N] [--listen] [--grandchild] [--storm N] STATEMENT...
//
// STATEMENT is one of the fake engine's script.
// --listen      opens a listening socket that is not close-on-exec, before the engine starts
// --grandchild  waits for the number of a process that the engine started, and tells it
// --storm       kills the engine N times at the moment a request is written to it, then leaves
// Without --storm it runs until its stdin ends.
#include <cstdio>
#include <cstdlib>
#include <string>

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/serve/supervisor/harness.hpp"

namespace {

using namespace strata::serve;
using namespace strata::serve::tests;

struct HostOptions {
    int requests = 0;
    bool listen = false;
    bool grandchild = false;
    int storm = 0;
    std::vector<std::string> script;
};

void tell(const std::string& text) {
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
}

HostOptions read_options(int argc, char** argv) {
    HostOptions options;
    for (int i = 1; i < argc; ++i) {
        const std::string word = argv[i];
        if (word == "--requests") {
            options.requests = std::atoi(argv[++i]);
        } else if (word == "--storm") {
            options.storm = std::atoi(argv[++i]);
        } else if (word == "--listen") {
            options.listen = true;
        } else if (word == "--grandchild") {
            options.grandchild = true;
        } else {
            options.script.push_back(word);
        }
    }
    return options;
}

void open_listener() {
    const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = ::htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    if (::bind(fd, reinterpret_cast<sockaddr*>(&address), length) != 0 || ::listen(fd, 8) != 0 ||
        ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
        std::exit(1);
    }
    tell("port " + std::to_string(::ntohs(address.sin_port)));
}

class TellingListener : public RequestListener {
  public:
    void on_progress(const strata::protocol::ProgressLine&) override { tell("progress"); }
    void on_token(const strata::protocol::TokenLine&) override { tell("token"); }
    void on_done(const strata::protocol::DoneLine&) override { tell("ended"); }
    void on_failure(const EngineFailure&) override { tell("ended"); }
};

strata::protocol::GenCommand command_of(std::int64_t max_new) {
    strata::protocol::GenCommand command;
    command.max_new = max_new;
    command.ids = {1, 2, 3};
    return command;
}

// The kill comes just before the write: the loop has not seen the death when it writes.
int storm(Harness& harness, int count) {
    for (int i = 0; i < count; ++i) {
        if (!harness.run_until_ready()) return 1;
        harness.supervisor->submit(command_of(1), std::make_shared<TellingListener>());
        ::kill(static_cast<pid_t>(harness.supervisor->view().engine_pid), SIGKILL);
        const auto epoch = harness.supervisor->view().epoch;
        if (!harness.run_until([&] { return harness.supervisor->view().epoch > epoch; })) return 1;
    }
    tell("survived " + std::to_string(count));
    return harness.finish().empty() ? 0 : 1;
}

bool stdin_ended() {
    pollfd want{0, POLLIN, 0};
    char byte = 0;
    return ::poll(&want, 1, 0) > 0 && ::read(0, &byte, 1) <= 0;
}

}  // namespace

int main(int argc, char** argv) {
    const HostOptions options = read_options(argc, argv);
    ::signal(SIGPIPE, SIG_DFL);
    if (options.listen) open_listener();
    SupervisorConfig config = quick_config(options.script);
    config.restart.load_failures_max = 1 << 30;
    Harness harness(config);
    tell("engine " + std::to_string(harness.supervisor->view().engine_pid));
    if (options.grandchild) tell("grandchild " + harness.stderr_after("grandchild "));
    if (options.storm > 0) return storm(harness, options.storm);
    constexpr std::chrono::hours kPatience{1};
    if (!harness.run_until(
            [&] { return harness.supervisor->view().state == EngineState::ready || stdin_ended(); },
            kPatience)) {
        return 1;
    }
    tell("ready");
    for (int i = 0; i < options.requests; ++i) {
        harness.supervisor->submit(command_of(1000000), std::make_shared<TellingListener>());
    }
    harness.run_until(stdin_ended, kPatience);
    return harness.finish().empty() ? 0 : 1;
}
