// Why an engine ended, in words for the log, /health and the Monitor, and whether another start
// makes sense. A pure function of what was seen; the first fatal cause is the one that is told.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "serve/supervisor/engine_process.hpp"
#include "serve/supervisor/restart_policy.hpp"

namespace strata::serve {

enum class EndCause : std::uint8_t {
    none,            // its exit status speaks for itself
    exec_failed,     // the program could not be started now
    not_runnable,    // nor ever: no such file, no permission, no program of this machine
    fatal_error,     // it said ERR ... fatal=1
    no_pong,         // we ended it: its main loop did not answer
    no_progress,     // we ended it: its request did not move
    load_stalled,    // we ended it: its load did not move
    overlong_line,   // we ended it: a line without end
    stdin_overflow,  // we ended it: it does not read
    stdin_closed,    // we ended it: it closed its input
    stdout_closed,   // we ended it: it closed its output
    leaving,         // we ended it: it gave a request up without being asked, and stayed
    wrong_protocol,  // we ended it: it speaks another version
};

// Exit statuses of the engine (PROTOCOL.md).
enum class EngineExitCode : std::uint8_t {
    clean = 0,
    bad_option = 2,
    model_refused = 3,
    no_device = 4,
    fatal = 5,
    broken_invariant = 70,
};

struct EngineExit {
    std::optional<ExitStatus> status;  // absent: no process came to be
    EnginePhase phase = EnginePhase::idle;
    bool request_running = false;
    EndCause cause = EndCause::none;
    std::string cause_text;               // the engine's or the system's own words for it
    std::vector<std::string> last_lines;  // of its stderr, oldest first
    std::uint64_t oom_kills = 0;          // that the kernel counted meanwhile
};

struct ExitReport {
    bool unexpected = true;  // nobody asked for this end
    bool retryable = true;
    std::string text;
};

ExitReport report_exit(const EngineExit& end);

// Whether a line of the engine's stderr reports its ordinary work. Such lines are in the log alone:
// they are nobody's last words.
bool is_routine(std::string_view line);

std::string_view phase_text(EnginePhase phase);  // "while it loaded the model" ...

}  // namespace strata::serve
