// A real strata-serve in a test: on a free port of 127.0.0.1, with the fake engine or the real one,
// its log in a file, ended with the object.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "tests/support/http_client.hpp"

namespace strata::tests {

struct ServerOptions {
    std::vector<std::string> engine;  // options of the fake engine; unused with real_engine
    std::vector<std::string> server;  // options of strata-serve
    bool real_engine = false;
    bool wait_until_ready = true;
};

class ServerProcess {
  public:
    explicit ServerProcess(const ServerOptions& options);
    ~ServerProcess();  // SIGKILL, if it still runs; the engine ends by its own nets
    ServerProcess(const ServerProcess&) = delete;
    ServerProcess& operator=(const ServerProcess&) = delete;

    std::uint16_t port() const { return port_; }  // 0: it never listened
    pid_t pid() const { return pid_; }
    std::string log() const;
    // The engine's process; 0 when there is none.
    pid_t engine_pid() const;
    bool wait_ready(Wait wait = kPatience) const;
    bool log_has(const std::string& text, Wait wait = kPatience) const;
    // Its exit status (128 + number after a signal); none when it does not end in time.
    std::optional<int> wait_exit(Wait wait = kPatience);
    void signal(int number) const;

  private:
    bool has_ended() const;  // not yet waited for
    std::string folder_;
    pid_t pid_ = -1;
    std::uint16_t port_ = 0;
};

// Resident set of a process in KiB; 0 when it is gone.
long resident_kib(pid_t pid);
// Until `condition` holds; false after `wait`.
template <class Condition>
bool eventually(Condition condition, Wait wait = kPatience);

void pause(Wait time);

template <class Condition>
bool eventually(Condition condition, Wait wait) {
    const auto deadline = std::chrono::steady_clock::now() + wait;
    while (std::chrono::steady_clock::now() < deadline) {
        if (condition()) return true;
        pause(Wait(10));
    }
    return condition();
}

}  // namespace strata::tests
