// A supervisor_host as a child of the test.
#include "tests/serve/supervisor/host_process.hpp"

#include <array>
#include <fstream>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/support/process_epilogue.hpp"

namespace strata::serve::tests {

namespace {

constexpr std::chrono::milliseconds kPause{5};
using Clock = std::chrono::steady_clock;

std::vector<char*> pointers(std::vector<std::string>& texts) {
    std::vector<char*> out;
    for (std::string& text : texts) out.push_back(text.data());
    out.push_back(nullptr);
    return out;
}

}  // namespace

HostProcess::HostProcess(const std::vector<std::string>& arguments,
                         const std::vector<std::string>& environment) {
    std::vector<std::string> words{STRATA_TEST_BIN_DIR "/supervisor_host"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<std::string> variables = environment;
    for (char** each = ::environ; *each != nullptr; ++each) variables.emplace_back(*each);
    std::array<int, 2> in{};
    std::array<int, 2> out{};
    if (::pipe2(in.data(), O_CLOEXEC) != 0 || ::pipe2(out.data(), O_CLOEXEC) != 0) return;
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, in[0], 0);
    ::posix_spawn_file_actions_adddup2(&actions, out[1], 1);
    if (::posix_spawn(&pid_, words[0].c_str(), &actions, nullptr, pointers(words).data(),
                      pointers(variables).data()) != 0) {
        pid_ = -1;
    }
    ::posix_spawn_file_actions_destroy(&actions);
    ::close(in[0]);
    ::close(out[1]);
    stdin_ = in[1];
    stdout_ = out[0];
}

HostProcess::~HostProcess() {
    if (pid_ > 0 && !reaped_) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    for (const pid_t pid : adopted_) {
        if (strata::tests::process_lives(pid)) ::kill(pid, SIGKILL);
        ::waitpid(pid, nullptr, 0);
    }
    ::close(stdin_);
    ::close(stdout_);
}

std::optional<std::string> HostProcess::wait_for(const std::string& head,
                                                 std::chrono::milliseconds limit) {
    const auto until = Clock::now() + limit;
    while (Clock::now() < until) {
        for (std::size_t lf = buffer_.find('\n'); lf != std::string::npos;
             lf = buffer_.find('\n')) {
            const std::string line = buffer_.substr(0, lf);
            buffer_.erase(0, lf + 1);
            if (line.rfind(head, 0) == 0) return line.substr(head.size());
        }
        pollfd want{stdout_, POLLIN, 0};
        if (::poll(&want, 1, static_cast<int>(kPause.count())) <= 0) continue;
        std::array<char, 4096> bytes;
        const ssize_t n = ::read(stdout_, bytes.data(), bytes.size());
        if (n <= 0) return std::nullopt;
        buffer_.append(bytes.data(), static_cast<std::size_t>(n));
    }
    return std::nullopt;
}

void HostProcess::send_signal(int number) const {
    ::kill(pid_, number);
}

std::optional<int> HostProcess::wait_end(std::chrono::milliseconds limit) {
    const auto until = Clock::now() + limit;
    do {
        int status = 0;
        if (::waitpid(pid_, &status, WNOHANG) == pid_) {
            reaped_ = true;
            return status;
        }
        // What it prints must not block it.
        wait_for("nothing that is ever printed", kPause);
        std::this_thread::sleep_for(kPause);
    } while (Clock::now() < until);
    return std::nullopt;
}

pid_t HostProcess::first_child() const {
    const std::string number = std::to_string(pid_);
    std::ifstream in("/proc/" + number + "/task/" + number + "/children");
    pid_t child = 0;
    in >> child;
    return child;
}

bool goes(pid_t pid) {
    const auto until = Clock::now() + late();
    do {
        if (::waitpid(pid, nullptr, WNOHANG) == pid || !strata::tests::process_lives(pid)) {
            return true;
        }
        std::this_thread::sleep_for(kPause);
    } while (Clock::now() < until);
    return false;
}

}  // namespace strata::serve::tests
