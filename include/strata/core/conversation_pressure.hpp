// Memory pressure: when the machine runs low, which piece of the conversation cache is given back
// next. Takes readings and holdings, returns one step at a time; the caller does the step, takes
// the reading again and asks for the next. No clock, no OS, no GPU (DETAILS.md, Memory pressure).
//
//   begin()   available >= floor, or unknown: done, nothing happened
//             below: an event begins
//   next()    after each step, until floor + hysteresis is available:
//             settle the heap -> retained K/V -> parked conversations, oldest first ->
//             host checkpoints of idle lanes -> nothing left: exhausted
//
// Invariants: (1) above the floor one reading and nothing else; (2) a reading that is unknown ends
// the event without another step; (3) at most slots + 2 units are released in one event; (4) an
// event that released nothing because nothing is left is said once, until a request ran or the held
// bytes changed.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "strata/core/host_memory.hpp"

namespace strata {

struct PressureLimits {
    std::uint64_t floor_bytes = 0;       // --conversation-cache-min-free-mib
    std::uint64_t hysteresis_bytes = 0;  // STRATA_CONV_PRESSURE_HYST_MIB
    std::int64_t slots = 0;              // --conversation-cache-slots
};

// What could be given back now.
struct PressureHoldings {
    std::uint64_t held_bytes = 0;             // ConversationCache::bytes()
    std::uint64_t retained_bytes = 0;         // part of held_bytes
    std::uint64_t lane_checkpoint_bytes = 0;  // of idle batch lanes, beside held_bytes
    std::int64_t releasable = 0;  // parked conversations that are neither pinned nor guarded
    std::int64_t parked = 0;
};

enum class PressureWhere : std::uint8_t {
    request,  // before a request, or between its prompt chunks
    idle,
    window,   // between decode windows
    command,  // TRIM
};

enum class PressureStep : std::uint8_t {
    done,
    settle,                    // malloc_trim; it is never asked for while a request is answered
    release_retained,          // ConversationCache::release_retained()
    release_oldest,            // ConversationCache::evict_oldest()
    release_lane_checkpoints,  // host checkpoints of idle batch lanes; K/V and ids stay
};

// The figures of one check, complete when its step is `done`.
struct PressureReport {
    PressureWhere where = PressureWhere::idle;
    bool event = false;  // below the floor: one line and one PRESSURE; false: neither
    bool settled = false;
    bool exhausted = false;  // nothing was left to release, and the target was not reached
    bool bound_reached = false;
    std::optional<std::uint64_t> before_bytes;  // available; absent = unknown
    std::optional<std::uint64_t> after_bytes;   // absent = the reading was lost midway
    std::uint64_t last_known_bytes = 0;
    std::uint64_t floor_bytes = 0;
    std::uint64_t hysteresis_bytes = 0;
    std::int64_t released_dialogs = 0;
    std::uint64_t dialog_bytes = 0;
    std::uint64_t retained_bytes = 0;
    std::uint64_t lane_checkpoint_bytes = 0;
    // What is left:
    std::int64_t parked = 0;  // entries
    std::uint64_t held_bytes = 0;
    std::uint64_t kept_bytes = 0;  // the live conversation's K/V, part of held_bytes

    [[nodiscard]] std::uint64_t released_bytes() const {
        return dialog_bytes + retained_bytes + lane_checkpoint_bytes;
    }
};

class ConversationPressure {
  public:
    explicit ConversationPressure(const PressureLimits& limits) : limits_(limits) {}

    // A check begins: one reading. `may_settle` is false while a request is being answered (between
    // chunks, between windows): then no step is `settle`.
    [[nodiscard]] PressureStep begin(PressureWhere where, const MemoryReading& reading,
                                     const PressureHoldings& holdings, bool may_settle);
    // The last step is done, the heap is settled where that may be, and this is the reading after
    // it. Precondition: the last answer was not `done`.
    [[nodiscard]] PressureStep next(const MemoryReading& reading, const PressureHoldings& holdings);
    // Of the check that began last.
    [[nodiscard]] const PressureReport& report() const { return report_; }
    // A request ran: an exhausted event may be said again.
    void request_ran() { said_exhausted_.reset(); }

  private:
    void note_left(const PressureHoldings& holdings);
    void account(const PressureHoldings& holdings);
    PressureStep choose(const PressureHoldings& holdings);
    PressureStep finish();

    PressureLimits limits_;
    PressureReport report_;
    PressureHoldings before_step_;
    PressureStep step_ = PressureStep::done;
    std::int64_t units_ = 0;                       // released in this event
    std::optional<std::uint64_t> said_exhausted_;  // held bytes when it was said
};

// The one line on stderr, without its end:
//   conversation cache: RAM below the floor: released 2 dialogs, 2180 MiB (dropped) in 131 ms;
//   idle: 9761 -> 11901 MiB available, floor 10240 MiB + 1024; parked=1
// A reading lost midway shows the last known figure. MiB are rounded down.
[[nodiscard]] std::string pressure_text(const PressureReport& report, double ms);

// The fastest that other programs were seen to take RAM, bytes a second (DETAILS.md, Memory
// pressure: 7,930 MiB/s).
inline constexpr std::uint64_t kFillBytesPerSecond = 8'000'000'000;
inline constexpr std::int64_t kIdleSliceMsMin = 50;  // a reading costs about 10 us

// How long the idle engine may sleep before it looks again: as long as it takes to fill the
// headroom above the floor at kFillBytesPerSecond, within [kIdleSliceMsMin, period_ms]. `period_ms`
// (not above zero: no timed checks, and 0 is the answer) when the reading is unknown or already
// below the floor: what could be released has been then.
[[nodiscard]] std::int64_t idle_slice_ms(const MemoryReading& reading, std::uint64_t floor_bytes,
                                         std::int64_t period_ms);

}  // namespace strata
