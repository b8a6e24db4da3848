// The defences of this room, one per row of tests/serve/supervisor/ROWS.md. In the product every
// one of them stands and the question is answered by the compiler; the test build of this room
// (macro STRATA_DEFENCE_SWITCHES) can take one away, to prove that the row's test then fails.
#pragma once

#include <chrono>
#include <cstdint>

namespace strata::serve {

enum class Defence : std::uint8_t {
    whole_lines,       // C1: only bytes before an LF are a line
    foreign_text,      // C2: a line that is no event is counted and dropped
    line_limit,        // C4: an endless line ends the epoch
    own_stall,         // C6: time in which we stood still does not count against the engine
    joint_pipes,       // C5: stdin, stdout and stderr are handled together
    sigpipe,           // C7: ignored here, default again in the child
    reap_at_once,      // C8: by pidfd, before the pipes are drained
    watchdog,          // C9: PING and progress limits
    death_is_failure,  // C10: a request whose engine died hears on_failure
    restart_limits,    // C11: back-off and FAILED
    cause_latch,       // C12: the first fatal cause is the one reported
    ticket_match,      // C13: only lines of the running ticket count
    cancel_holds,      // C14: a cancelled request holds the engine until its DONE
    steady_clock,      // C15: deadlines know nothing of the wall clock
    closed_fds,        // C16: no foreign descriptor in the child
    death_signal,      // C17: the child dies with the supervisor
    stream_end,        // C18: an engine that closed its streams is ended
    escalation,        // C19: TERM, then KILL of the process group
    device_retry,      // C20: a device that is not free yet is waited for
    fork_safety,       // C21: no lock is taken between fork and exec
    clean_setting,     // C22: the child's environment and umask are ours
    protocol_match,    // C23: an engine of another protocol version is refused
    log_never_blocks,  // C24: a log that nobody reads costs lines, not time
    oom_score,         // C25: the engine is the likelier victim
};

#ifdef STRATA_DEFENCE_SWITCHES
bool defended(Defence defence);
// For C17's race: how long a child waits between fork and asking for its death signal.
unsigned pause_before_death_signal_ms();
// What a deadline by the wall clock would read: steady time and the steps that the test makes.
std::chrono::steady_clock::time_point wall_clock();
// What a careless child would do: wait for a lock that a thread of the parent holds. Ends it.
void take_a_lock_of_the_parent();
#else
constexpr bool defended(Defence) {
    return true;
}
#endif

}  // namespace strata::serve
