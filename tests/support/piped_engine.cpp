// See piped_engine.hpp.
#include "piped_engine.hpp"

#include <array>
#include <cerrno>
#include <stdexcept>
#include <thread>

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace strata::tests {

namespace {

using Clock = std::chrono::steady_clock;

std::array<int, 2> make_pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("no pipe");
    return ends;
}

int left_ms(Clock::time_point deadline) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    return static_cast<int>(std::max<std::int64_t>(left.count(), 0));
}

}  // namespace

PipedEngine::PipedEngine(const std::string& program, const std::vector<std::string>& arguments) {
    ::signal(SIGPIPE, SIG_IGN);
    const auto in = make_pipe();
    const auto out = make_pipe();
    errors_ = ::memfd_create("stderr", MFD_CLOEXEC);
    std::vector<char*> argv{const_cast<char*>(program.c_str())};
    for (const auto& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
        ::dup2(in[0], STDIN_FILENO);
        ::dup2(out[1], STDOUT_FILENO);
        ::dup2(errors_, STDERR_FILENO);
        ::signal(SIGPIPE, SIG_DFL);
        ::execv(program.c_str(), argv.data());
        ::_exit(127);
    }
    ::close(in[0]);
    ::close(out[1]);
    to_ = in[1];
    from_ = out[0];
    if (pid_ < 0) throw std::runtime_error("no process for " + program);
}

PipedEngine::~PipedEngine() {
    if (!end_) {
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }
    close_stdin();
    close_stdout();
    ::close(errors_);
}

bool PipedEngine::send(std::string_view line) {
    return send_raw(std::string(line) + "\n");
}

bool PipedEngine::send_raw(std::string_view bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(to_, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return false;
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return true;
}

void PipedEngine::close_stdin() {
    if (to_ >= 0) ::close(to_);
    to_ = -1;
}

void PipedEngine::close_stdout() {
    if (from_ >= 0) ::close(from_);
    from_ = -1;
}

std::optional<std::string> PipedEngine::next_line(Ms limit) {
    const auto deadline = Clock::now() + limit;
    while (true) {
        const std::size_t end = held_.find('\n');
        if (end != std::string::npos) {
            std::string line = held_.substr(0, end);
            held_.erase(0, end + 1);
            return line;
        }
        if (ended_) return std::nullopt;
        pollfd ready{from_, POLLIN, 0};
        if (::poll(&ready, 1, left_ms(deadline)) <= 0) return std::nullopt;
        std::array<char, 65536> bytes{};
        const ssize_t count = ::read(from_, bytes.data(), bytes.size());
        if (count <= 0) {
            ended_ = true;
        } else {
            held_.append(bytes.data(), static_cast<std::size_t>(count));
        }
    }
}

std::vector<std::string> PipedEngine::lines_until(std::string_view word, Ms limit) {
    const auto deadline = Clock::now() + limit;
    std::vector<std::string> lines;
    while (auto line = next_line(Ms(left_ms(deadline)))) {
        lines.push_back(*line);
        if (line->starts_with(word)) return lines;
    }
    return {};
}

std::vector<std::string> PipedEngine::rest(Ms limit) {
    const auto deadline = Clock::now() + limit;
    std::vector<std::string> lines;
    while (auto line = next_line(Ms(left_ms(deadline)))) lines.push_back(*line);
    return lines;
}

void PipedEngine::signal(int number) const {
    ::kill(pid_, number);
}

std::optional<ProcessEnd> PipedEngine::wait(Ms limit) {
    const auto deadline = Clock::now() + limit;
    while (!end_) {
        int status = 0;
        const pid_t gone = ::waitpid(pid_, &status, WNOHANG);
        if (gone == pid_) {
            end_ = WIFEXITED(status) ? ProcessEnd{true, WEXITSTATUS(status)}
                                     : ProcessEnd{false, WTERMSIG(status)};
        } else if (Clock::now() >= deadline) {
            return std::nullopt;
        } else {
            std::this_thread::sleep_for(Ms(2));
        }
    }
    return end_;
}

std::string PipedEngine::stderr_text() const {
    std::string text;
    std::array<char, 4096> bytes{};
    off_t at = 0;
    while (true) {
        const ssize_t count = ::pread(errors_, bytes.data(), bytes.size(), at);
        if (count <= 0) return text;
        text.append(bytes.data(), static_cast<std::size_t>(count));
        at += count;
    }
}

std::string named(std::string_view line, std::string_view name) {
    const std::string key = " " + std::string(name) + "=";
    const std::size_t at = line.find(key);
    if (at == std::string_view::npos) return "";
    const std::string_view value = line.substr(at + key.size());
    return std::string(value.substr(0, value.find(' ')));
}

std::string field(std::string_view line, std::size_t index) {
    while (index-- > 0) {
        const std::size_t space = line.find(' ');
        if (space == std::string_view::npos) return "";
        line.remove_prefix(space + 1);
    }
    return std::string(line.substr(0, line.find(' ')));
}

}  // namespace strata::tests
