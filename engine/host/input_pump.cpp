// See engine/host/input_pump.hpp.
#include "engine/host/input_pump.hpp"

#include <array>
#include <cerrno>
#include <chrono>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "strata/core/invariant.hpp"

namespace strata {

namespace {

constexpr std::size_t kReadBytes = 64 * 1024;  // what a pipe holds
constexpr int kForever = -1;
constexpr int kParentLookMs = 300;  // an orphan is to be gone within 2 s, its grace included
constexpr std::chrono::milliseconds kGraceLookMs{20};  // a fraction of the shortest grace
constexpr int kNoRoomLookMs = 10;  // while nobody takes lines; only hang-up and signals are watched

}  // namespace

bool parent_is(std::int64_t pid) {
    return pid == 0 || ::getppid() == static_cast<pid_t>(pid);
}

InputPump::InputPump(int input, int signals, std::int64_t parent_pid, InputPumpCalls calls,
                     int trigger)
    : input_(input),
      signals_(signals),
      parent_pid_(parent_pid),
      trigger_(trigger),
      calls_(std::move(calls)),
      leaving_(::eventfd(0, EFD_CLOEXEC)) {
    STRATA_INVARIANT(leaving_ >= 0);
    thread_ = std::thread([this] { run(); });
}

InputPump::~InputPump() {
    const std::uint64_t one = 1;
    STRATA_INVARIANT(::write(leaving_, &one, sizeof one) == sizeof one);
    thread_.join();
    ::close(leaving_);
}

void InputPump::run() {
    guard_exit(pump());
}

InputEnd InputPump::pump() {
    std::vector<char> bytes(kReadBytes);
    while (true) {
        const bool room = calls_.has_room();
        // A negative descriptor is passed over.
        std::array<pollfd, 4> watched{{{input_, static_cast<short>(room ? POLLIN : 0), 0},
                                       {signals_, POLLIN, 0},
                                       {leaving_, POLLIN, 0},
                                       {trigger_, POLLPRI, 0}}};
        const int wait_ms = !room ? kNoRoomLookMs : parent_pid_ != 0 ? kParentLookMs : kForever;
        if (::poll(watched.data(), watched.size(), wait_ms) < 0 && errno != EINTR) {
            return InputEnd::closed;
        }
        if ((watched[2].revents & POLLIN) != 0) return InputEnd::told;
        if ((watched[1].revents & POLLIN) != 0) return InputEnd::signalled;
        if (!parent_is(parent_pid_)) return InputEnd::parent_gone;
        if ((watched[3].revents & (POLLERR | POLLNVAL)) != 0) {
            trigger_ = -1;  // the kernel took it away: time alone tells from here on
        } else if ((watched[3].revents & POLLPRI) != 0) {
            calls_.alarmed();
        }
        if ((watched[0].revents & (POLLIN | POLLHUP | POLLERR | POLLNVAL)) == 0) continue;
        if (!room)
            return InputEnd::closed;  // hung up; what was not taken asks for nothing any more
        const ssize_t count = ::read(input_, bytes.data(), bytes.size());
        if (count < 0 && (errno == EINTR || errno == EAGAIN)) continue;
        if (count <= 0) return InputEnd::closed;
        const std::string_view chunk(bytes.data(), static_cast<std::size_t>(count));
        if (!calls_.take(chunk)) return InputEnd::told;
    }
}

void InputPump::guard_exit(InputEnd end) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point ended_at = Clock::now();
    calls_.ended(end);
    pollfd leaving{leaving_, POLLIN, 0};
    while (Clock::now() - ended_at < calls_.grace(end)) {
        if (::poll(&leaving, 1, static_cast<int>(kGraceLookMs.count())) > 0) return;
    }
    calls_.overdue();
}

}  // namespace strata
