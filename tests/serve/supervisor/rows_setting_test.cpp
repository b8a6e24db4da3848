// Rows C15, C22 and C24 with real processes: the clock, the environment and the log around us.
#include <cstdlib>
#include <future>
#include <string>
#include <thread>

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "serve/log_output.hpp"
#include "tests/serve/supervisor/defence_switch.hpp"
#include "tests/serve/supervisor/harness.hpp"

using namespace strata::serve;
using namespace strata::serve::tests;
using Clock = std::chrono::steady_clock;
using std::chrono::hours;
using std::chrono::milliseconds;
using std::chrono::seconds;

namespace {

SupervisorConfig watched() {
    SupervisorConfig config = quick_config({"ready", "serve"});
    config.liveness.ping_every = milliseconds(200);
    config.liveness.pong = milliseconds(1000) * kPatience;
    config.liveness.progress = milliseconds(2000) * kPatience;
    return config;
}

// One variable of this process's environment for the time of a test.
class Variable {
  public:
    Variable(std::string name, const char* value) : name_(std::move(name)) {
        const char* const before = std::getenv(name_.c_str());
        had_ = before != nullptr;
        if (had_) before_ = before;
        if (value == nullptr) {
            ::unsetenv(name_.c_str());
        } else {
            ::setenv(name_.c_str(), value, 1);
        }
    }
    Variable(const Variable&) = delete;
    Variable& operator=(const Variable&) = delete;
    ~Variable() {
        if (had_) {
            ::setenv(name_.c_str(), before_.c_str(), 1);
        } else {
            ::unsetenv(name_.c_str());
        }
    }

  private:
    std::string name_;
    std::string before_;
    bool had_ = false;
};

class TightLimits {
  public:
    TightLimits() : umask_(::umask(0777)) {
        ::getrlimit(RLIMIT_NOFILE, &files_);
        rlimit tight = files_;
        tight.rlim_cur = 64;
        ::setrlimit(RLIMIT_NOFILE, &tight);
    }
    TightLimits(const TightLimits&) = delete;
    TightLimits& operator=(const TightLimits&) = delete;
    ~TightLimits() {
        ::setrlimit(RLIMIT_NOFILE, &files_);
        ::umask(umask_);
    }

  private:
    ::mode_t umask_;
    rlimit files_{};
};

std::string dropped_note(std::uint64_t lines) {
    return std::to_string(lines) + " dropped\n";
}

std::string all_of(int fd) {
    std::string text;
    char bytes[4096];
    for (ssize_t count = 0; (count = ::read(fd, bytes, sizeof bytes)) > 0;) {
        text.append(bytes, static_cast<std::size_t>(count));
    }
    return text;
}

// Nothing is left in the pipe.
bool is_read(int fd) {
    const auto end = Clock::now() + late();
    int left = 1;
    while (::ioctl(fd, FIONREAD, &left) == 0 && left > 0 && Clock::now() < end) {
        std::this_thread::sleep_for(milliseconds(5));
    }
    return left == 0;
}

}  // namespace

TEST_CASE("steps of the wall clock change no deadline", "[C15]") {
    Harness harness(watched());
    REQUIRE(harness.run_until_ready());
    for (const milliseconds step : {milliseconds(hours(1)), milliseconds(hours(-1)),
                                    milliseconds(hours(24)), milliseconds(hours(-48))}) {
        step_wall_clock(step);
        harness.run_for(milliseconds(300));
    }
    const EngineView before = harness.supervisor->view();
    ::kill(static_cast<pid_t>(before.engine_pid), SIGSTOP);
    const bool ended = harness.run_until([&] { return harness.supervisor->view().epoch == 2; });
    if (!ended) ::kill(static_cast<pid_t>(before.engine_pid), SIGCONT);
    INFO("row C15: healthy through every step, and a hang is seen in its time");
    CHECK(before.unexpected_ends == 0);
    CHECK(ended);
    CHECK(harness.finish() == "");
}

TEST_CASE("the engine works in a setting of its own", "[C22]") {
    const Variable locale("LC_ALL", "de_DE.UTF-8");
    const Variable preload("LD_PRELOAD", "/nowhere/lib.so");
    const Variable secret("STRATA_API_KEY", "a-long-secret");
    const Variable home("HOME", nullptr);
    const Variable kept("STRATA_TEST_KEPT", "yes");
    const TightLimits limits;
    Harness harness({"status Umask", "env LC_ALL LD_PRELOAD STRATA_API_KEY HOME STRATA_TEST_KEPT",
                     "ready", "serve"});
    INFO("row C22: locale, preloads, secrets and umask of this server stay here");
    CHECK(harness.stderr_after("Umask:").find("0077") != std::string::npos);
    CHECK(harness.stderr_after("env LC_ALL") == "=C");
    CHECK(harness.stderr_after("env LD_PRELOAD") == " unset");
    CHECK(harness.stderr_after("env STRATA_API_KEY") == " unset");
    CHECK(harness.stderr_after("env HOME") == " unset");
    CHECK(harness.stderr_after("env STRATA_TEST_KEPT") == "=yes");
    const auto request = harness.submit(2);
    CHECK(harness.run_until([&] { return request->ended(); }));
    CHECK(request->done);
    CHECK(harness.finish() == "");
}

TEST_CASE("a log that nobody reads costs lines and no time", "[C24]") {
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    constexpr int kLines = 2000;  // of 100 bytes: three times what a pipe holds
    // Somebody reads in the end: a write that waits comes back, late.
    std::promise<void> written;
    std::string read;
    std::thread reader([&] {
        written.get_future().wait_for(late());
        read = all_of(ends[0]);
    });
    LogOutput output(ends[1], dropped_note);
    const auto began = Clock::now();
    for (int i = 0; i < kLines; ++i) output.write(std::string(99, 'x') + "\n");
    const auto took = Clock::now() - began;
    written.set_value();
    CHECK(is_read(ends[0]));
    output.write("the last line\n");
    ::close(ends[1]);
    reader.join();
    ::close(ends[0]);
    INFO("row C24: nobody waits for the log");
    CHECK(took < late() / 2);
    CHECK(read.find(" dropped\nthe last line\n") != std::string::npos);
}

TEST_CASE("row C24 a log on a full disk costs lines and nothing else") {
    const int full = ::open("/dev/full", O_WRONLY | O_CLOEXEC);
    REQUIRE(full >= 0);
    LogOutput output(full, dropped_note);
    for (int i = 0; i < 100; ++i) output.write("a line\n");
    ::close(full);
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    LogOutput gone(ends[1], dropped_note);
    ::close(ends[0]);
    ::signal(SIGPIPE, SIG_IGN);
    gone.write("a line\n");
    gone.write("a line\n");
    ::close(ends[1]);
}
