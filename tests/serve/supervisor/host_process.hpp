// A supervisor_host as a child of the test: its words, its death.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include <sys/types.h>

#include "tests/serve/supervisor/patience.hpp"

namespace strata::serve::tests {

class HostProcess {
  public:
    // `environment` is added to the test's own: NAME=value.
    explicit HostProcess(const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment = {});
    HostProcess(const HostProcess&) = delete;
    HostProcess& operator=(const HostProcess&) = delete;
    ~HostProcess();  // kills and reaps it, and engines of it that the test adopted

    pid_t pid() const { return pid_; }
    // Reads until a line begins with `head`; the rest of that line. Absent after `limit`.
    std::optional<std::string> wait_for(const std::string& head,
                                        std::chrono::milliseconds limit = late());
    void send_signal(int number) const;
    // The wait status of the host; absent if it lives longer.
    std::optional<int> wait_end(std::chrono::milliseconds limit = late());
    // A child of the host; 0 if there is none.
    pid_t first_child() const;
    // Remembers a process to be killed in the end, whatever happens.
    void adopt(pid_t pid) { adopted_.push_back(pid); }

  private:
    pid_t pid_ = -1;
    int stdin_ = -1;
    int stdout_ = -1;
    bool reaped_ = false;
    std::string buffer_;
    std::vector<pid_t> adopted_;
};

// Reaps `pid`, a child that was given to the test, and says whether it ended before it was late.
bool goes(pid_t pid);

}  // namespace strata::serve::tests
