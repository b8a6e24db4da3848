// The life of the engine as a table: in each state, what each event leads to and what is to be done
// then. Pure; the supervisor has the processes, the clock and the requests.
//
//   unloaded -load-> preparing -prepared-> loading -ready-> ready
//      ^                 | refused                            | unload: nobody wants it
//      +-----------------+------------- gone -- unloading <---+
//   loading, ready -dying-> ending -gone-> waiting -due-> preparing; -gone_for_good-> failed
//
// Invariants: (1) at most one process lives: `prepare` and `launch` come only after `gone`;
// (2) whatever was asked for last wins: a load while the engine is unloaded makes it `reloading`,
// an unload then makes it `unloading` again; (3) after `leave` no process is started any more;
// (4) an event that means nothing in a state changes nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace strata::serve {

enum class LifeState : std::uint8_t {
    unloaded,   // no process, none wanted
    preparing,  // what comes before a load is under way
    loading,    // the process lives and is not READY
    ready,
    ending,     // it ends although it is wanted
    waiting,    // for the next start
    unloading,  // it was told to end, nobody wants it
    reloading,  // it was told to end, and is wanted again meanwhile
    failed,     // no more starts by itself
    leaving,    // the server leaves; the process was told to end
    stopped,
};
inline constexpr std::size_t kLifeStates = 11;

enum class LifeEvent : std::uint8_t {
    load,      // somebody wants an engine now: a wait for the next start ends
    unload,    // nobody does; no request runs or waits
    leave,     // the server leaves
    prepared,  // the load may begin
    refused,   // it may not
    ready,     // READY came
    dying,     // the process has exited, or was told to abort
    gone,      // nothing is left of the process, or it could not be started; another start may help
    gone_for_good,
    due,  // the wait is over
};
inline constexpr std::size_t kLifeEvents = 10;

enum class LifeAct : std::uint8_t {
    none,
    prepare,  // begin what comes before a load
    abandon,  // end it, or the wait
    launch,
    admit,   // requests may hold the engine
    quit,    // tell the engine to end: QUIT, later SIGTERM, later SIGKILL
    kill,    // end it at once
    wait,    // for the next start
    give_up  // what waits is told that no engine comes
};

struct LifeStep {
    LifeState state = LifeState::unloaded;
    LifeAct act = LifeAct::none;
    friend bool operator==(const LifeStep&, const LifeStep&) = default;
};

LifeStep life_step(LifeState state, LifeEvent event);

// Nothing is under way: who asked for a load or an unload can be told how it went.
constexpr bool settled(LifeState state) {
    return state == LifeState::unloaded || state == LifeState::ready ||
           state == LifeState::failed || state == LifeState::stopped;
}

// The process was told to end and is not missed.
constexpr bool ends_as_told(LifeState state) {
    return state == LifeState::unloading || state == LifeState::reloading ||
           state == LifeState::leaving;
}

}  // namespace strata::serve
