// The thread that reads stdin. It never writes to stdout, so a reader that is slow with our events
// cannot keep it from seeing a STOP. It knows no protocol: bytes go to a callback.
//
// It ends, once, for one of four reasons, and then guards the exit: when the process has not left
// after the time that `grace` allows, `overdue` is called (which leaves at once). So no death of
// the parent, no closed stdin and no SIGTERM can leave an engine behind.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>
#include <thread>

namespace strata {

enum class InputEnd : std::uint8_t {
    closed,       // end of stdin, or an error on it
    signalled,    // SIGTERM, SIGINT, SIGHUP
    parent_gone,  // the parent is another process now
    told,         // take() said so
};

struct InputPumpCalls {
    // All on the pump's thread.
    std::function<bool(std::string_view bytes)> take;  // false: read no more
    std::function<bool()> has_room;                    // false: take() would have to wait
    std::function<void(InputEnd)> ended;               // once
    // How long after its end the process may stay. Asked again all the while: what it is busy with
    // may change.
    std::function<std::chrono::milliseconds(InputEnd)> grace;
    std::function<void()> overdue;
    std::function<void()> alarmed;  // the trigger fired
};

class InputPump {
  public:
    // Borrows the descriptors. parent_pid 0: the parent is not watched. `trigger`: a descriptor
    // that has POLLPRI when memory is short (PressureTrigger); -1: none.
    InputPump(int input, int signals, std::int64_t parent_pid, InputPumpCalls calls,
              int trigger = -1);
    ~InputPump();  // the process is leaving in time
    InputPump(const InputPump&) = delete;
    InputPump& operator=(const InputPump&) = delete;

  private:
    void run();
    InputEnd pump();
    void guard_exit(InputEnd end);

    int input_;
    int signals_;
    std::int64_t parent_pid_;
    int trigger_;
    InputPumpCalls calls_;
    int leaving_;  // eventfd: the destructor is waiting
    std::thread thread_;
};

// True while `pid` is this process's parent; 0 is always true.
bool parent_is(std::int64_t pid);

}  // namespace strata
