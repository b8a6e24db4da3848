// One engine process as the supervisor sees it: lines in and out, signals, an end. The pipes of one
// object belong to one epoch: what an old epoch left in them can never be read by a newer one.
//
// Order of the calls on ProcessEvents: on_line, on_stderr_line and on_stream_fault in any number;
// on_exit once, as soon as the process is reaped; then lines that were still in the pipes;
// on_drained once and last. All from the loop, never from inside a call of EngineProcess.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <sys/types.h>

#include "strata/core/result.hpp"

namespace strata::serve {

struct ExitStatus {
    bool signalled = false;
    int number = 0;  // the exit status, or the signal
    bool core = false;
    friend bool operator==(const ExitStatus&, const ExitStatus&) = default;
};

enum class StreamFault : std::uint8_t {
    overlong_line,   // more than kEventLineBytesMax without an LF
    stdin_closed,    // the engine reads no more
    stdin_overflow,  // it reads too slowly for what must be said
    stdout_closed,   // the engine says no more
};

class ProcessEvents {
  public:
    virtual ~ProcessEvents() = default;
    virtual void on_line(std::string_view line) = 0;  // without LF
    virtual void on_stderr_line(std::string_view line) = 0;
    virtual void on_stream_fault(StreamFault fault) = 0;
    virtual void on_exit(const ExitStatus& status) = 0;
    virtual void on_drained() = 0;
};

// Destroying a process that is not reaped kills its group and reaps it.
class EngineProcess {
  public:
    virtual ~EngineProcess() = default;
    virtual pid_t pid() const = 0;
    // Queues one line (without LF) for stdin.
    virtual void write_line(std::string line) = 0;
    // After what is queued; the engine reads end of input.
    virtual void close_stdin() = 0;
    virtual void send_signal(int number) = 0;
    // SIGKILL to the engine and every process it started that is still of its group.
    virtual void kill_group() = 0;
};

struct EngineCommand {
    std::string path;  // of the program; no search
    std::vector<std::string> arguments;
};

// Why no process came to be.
struct LaunchRefusal {
    std::string text;
    bool lasting = false;  // the program is at fault, not the moment: another try ends the same way
};

class ProcessLauncher {
  public:
    virtual ~ProcessLauncher() = default;
    // `events` must outlive the process. A refusal leaves nothing behind.
    virtual Result<std::unique_ptr<EngineProcess>, LaunchRefusal> launch(
        const EngineCommand& command, ProcessEvents& events) = 0;
};

}  // namespace strata::serve
