// fork and exec through Boost.Process v2. What runs between fork and exec is EngineChildSetup's
// on_exec_setup alone: system calls on values prepared before the fork, no allocation, no lock.
#include "serve/supervisor/child_launch.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <boost/asio/io_context.hpp>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
// Boost.Process v2 of 1.81 with std::filesystem names these three without including them.
#include <boost/optional.hpp>
#include <boost/type_traits/decay.hpp>
#include <boost/type_traits/is_convertible.hpp>

#define BOOST_PROCESS_USE_STD_FS
#include <boost/process/v2/posix/default_launcher.hpp>
#include <boost/process/v2/process.hpp>

#include "serve/supervisor/defences.hpp"

namespace strata::serve {

namespace {

using boost::system::error_code;

constexpr int kFirstForeignFd = 3;
// Where close_range is missing (kernels before 5.11, old sandboxes) descriptors are marked one by
// one.
constexpr int kForeignFdsMarked = 4096;
// The engine holds the memory: it, not the supervisor, is what the kernel should pick.
constexpr int kOomScoreRaise = 200;
constexpr int kOomScoreMax = 1000;
constexpr int kChildGaveUpStatus = 127;
constexpr mode_t kPrivateFiles = 077;  // what an engine writes is a conversation

class Fd {
  public:
    Fd() = default;
    explicit Fd(int number) : number_(number) {}
    Fd(Fd&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Fd& operator=(Fd&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    ~Fd() {
        if (number_ >= 0) ::close(number_);
    }
    int get() const { return number_; }
    int release() { return std::exchange(number_, -1); }

  private:
    int number_ = -1;
};

struct Pipe {
    Fd read;
    Fd write;
};

using LaunchFailure = Failure<LaunchRefusal>;

LaunchFailure os_refusal(const std::string& what, int error) {
    return LaunchFailure{{what + ": " + std::strerror(error)}};
}

// Everything that exec may answer is about the program, but for a machine that is short of
// something now and a program that is being replaced.
bool lasting(int error) {
    constexpr std::array kOfTheMoment = {EAGAIN, ENOMEM, EMFILE, ENFILE, ETXTBSY, EINTR, EIO};
    return std::find(kOfTheMoment.begin(), kOfTheMoment.end(), error) == kOfTheMoment.end();
}

LaunchFailure exec_refusal(const std::string& path, const error_code& error) {
    std::string text = "cannot execute " + path + ": " + error.message();
    if (error.value() == ENOEXEC) text += ", it is no program for this machine";
    return LaunchFailure{{std::move(text), lasting(error.value())}};
}

// A pipe whose ends are above stdio, so that no dup2 in the child can overwrite one.
Result<Pipe, LaunchRefusal> make_pipe() {
    std::array<int, 2> ends{-1, -1};
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
        return os_refusal("no pipe for the engine", errno);
    }
    Pipe pipe{Fd(ends[0]), Fd(ends[1])};
    for (Fd* end : {&pipe.read, &pipe.write}) {
        if (end->get() >= kFirstForeignFd) continue;
        const int moved = ::fcntl(end->get(), F_DUPFD_CLOEXEC, kFirstForeignFd);
        if (moved < 0) return os_refusal("no pipe for the engine", errno);
        *end = Fd(moved);
    }
    return pipe;
}

void close_foreign_on_exec() {
    if (::close_range(kFirstForeignFd, ~0U, CLOSE_RANGE_CLOEXEC) == 0) return;
    for (int fd = kFirstForeignFd; fd < kForeignFdsMarked; ++fd) ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

void default_signals() {
    struct sigaction plain {};
    plain.sa_handler = SIG_DFL;
    for (int number = 1; number < NSIG; ++number) {
        if (number == SIGPIPE && !defended(Defence::sigpipe)) continue;
        ::sigaction(number, &plain, nullptr);  // KILL and STOP refuse; that is their default
    }
    sigset_t none;
    sigemptyset(&none);
    ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// The initializer that Boost.Process calls in the child, before exec.
struct EngineChildSetup {
    int stdin_read = -1;
    int stdout_write = -1;
    int stderr_write = -1;
    pid_t parent = -1;  // recorded before the fork: 1 is no proof where a subreaper adopts
    std::array<char, 16> oom_score{};
    std::size_t oom_score_bytes = 0;

    template <class Launcher>
    error_code on_exec_setup(Launcher&, const std::filesystem::path&, const char* const*) {
        tie_to_parent();
#ifdef STRATA_DEFENCE_SWITCHES
        if (!defended(Defence::fork_safety)) take_a_lock_of_the_parent();
#endif
        if (defended(Defence::clean_setting)) ::umask(kPrivateFiles);
        if (::setpgid(0, 0) != 0 || ::dup2(stdin_read, STDIN_FILENO) < 0 ||
            ::dup2(stdout_write, STDOUT_FILENO) < 0 || ::dup2(stderr_write, STDERR_FILENO) < 0) {
            return {errno, boost::system::system_category()};
        }
        raise_oom_score();
        if (defended(Defence::closed_fds)) close_foreign_on_exec();
        default_signals();
        return {};
    }

    // Boost asks for one list of arguments and calls with another. After a failed exec the library
    // would run the parent's exit handlers in the child.
    template <class... Any>
    void on_exec_error(Any&&...) {
        ::_exit(kChildGaveUpStatus);
    }

  private:
    void tie_to_parent() const {
#ifdef STRATA_DEFENCE_SWITCHES
        ::usleep(pause_before_death_signal_ms() * 1000);
#endif
        if (!defended(Defence::death_signal)) return;
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        // The parent may have died before the request was made: then no signal will come.
        if (::getppid() != parent) ::_exit(kChildGaveUpStatus);
    }

    void raise_oom_score() const {
        if (!defended(Defence::oom_score)) return;
        const int fd = ::open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
        if (fd < 0) return;
        // A refusal leaves the engine as likely a victim as the supervisor: no reason not to start.
        [[maybe_unused]] const ssize_t written = ::write(fd, oom_score.data(), oom_score_bytes);
        ::close(fd);
    }
};

int own_oom_score() {
    int score = 0;
    if (FILE* const in = std::fopen("/proc/self/oom_score_adj", "re")) {
        if (std::fscanf(in, "%d", &score) != 1) score = 0;
        std::fclose(in);
    }
    return score;
}

EngineChildSetup child_setup(const Pipe& in, const Pipe& out, const Pipe& err) {
    EngineChildSetup setup;
    setup.stdin_read = in.read.get();
    setup.stdout_write = out.write.get();
    setup.stderr_write = err.write.get();
    setup.parent = ::getpid();
    const int score = std::min(own_oom_score() + kOomScoreRaise, kOomScoreMax);
    setup.oom_score_bytes = static_cast<std::size_t>(
        std::snprintf(setup.oom_score.data(), setup.oom_score.size(), "%d", score));
    return setup;
}

// What the engine gets of our environment: no code that somebody loads into programs, no secrets of
// this server, and numbers that every locale reads alike.
class ChildEnvironment {
  public:
    ChildEnvironment() {
        for (const char* const* each = ::environ; *each != nullptr; ++each) {
            if (!dropped(*each)) variables_.push_back(*each);
        }
        if (defended(Defence::clean_setting)) variables_.push_back("LC_ALL=C");
        variables_.push_back(nullptr);
    }
    const char* const* variables() const { return variables_.data(); }

  private:
    static bool dropped(std::string_view variable) {
        if (!defended(Defence::clean_setting)) return false;
        constexpr std::array<std::string_view, 5> kHeads = {
            "LD_PRELOAD=", "LD_AUDIT=", "LC_ALL=", "STRATA_API_KEY=", "STRATA_API_KEY_FILE="};
        return std::any_of(kHeads.begin(), kHeads.end(), [variable](std::string_view head) {
            return variable.starts_with(head);
        });
    }
    std::vector<const char*> variables_;
};

void reap_failed_child(pid_t pid) {
    if (pid <= 0) return;
    ::kill(pid, SIGKILL);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
}

// The library tells the context that it forks and opens a pidfd on it: an io_context of its own
// keeps that away from the server's loop, whose locks another thread may hold at the moment of the
// fork.
Result<pid_t, LaunchRefusal> spawn(const EngineCommand& command, EngineChildSetup& setup) {
    boost::asio::io_context forked;
    boost::process::v2::posix::default_launcher launcher;
    const ChildEnvironment environment;
    launcher.env = environment.variables();
    error_code error;
    try {
        auto process = launcher(forked.get_executor(), error, std::filesystem::path(command.path),
                                command.arguments, setup);
        if (!error) {
            static_cast<void>(process.detach());
            return static_cast<pid_t>(launcher.pid);
        }
    } catch (const boost::system::system_error& thrown) {
        error = thrown.code();
    }
    reap_failed_child(launcher.pid);
    return exec_refusal(command.path, error);
}

bool set_non_blocking(int fd) {
    const int flags = ::fcntl(fd, F_GETFL);
    return flags >= 0 && ::fcntl(fd, F_SETFL, flags | O_NONBLOCK) == 0;
}

}  // namespace

Result<LaunchedChild, LaunchRefusal> launch_child(const EngineCommand& command) {
    Result<Pipe, LaunchRefusal> in = make_pipe();
    if (!in.ok()) return in.failure();
    Result<Pipe, LaunchRefusal> out = make_pipe();
    if (!out.ok()) return out.failure();
    Result<Pipe, LaunchRefusal> err = make_pipe();
    if (!err.ok()) return err.failure();
    if (!set_non_blocking(in->write.get()) || !set_non_blocking(out->read.get()) ||
        !set_non_blocking(err->read.get())) {
        return os_refusal("no pipe for the engine", errno);
    }
    EngineChildSetup setup = child_setup(*in, *out, *err);
    const Result<pid_t, LaunchRefusal> pid = spawn(command, setup);
    if (!pid.ok()) return pid.failure();
    Fd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));
    if (pidfd.get() < 0) {
        const LaunchFailure why = os_refusal("no descriptor for the engine's process", errno);
        reap_failed_child(*pid);
        return why;
    }
    LaunchedChild child;
    child.pid = *pid;
    child.pidfd = pidfd.release();
    child.stdin_write = in->write.release();
    child.stdout_read = out->read.release();
    child.stderr_read = err->read.release();
    return child;
}

}  // namespace strata::serve
