// The server's view of the engine: a FIFO queue of requests, of which the first holds the engine
// under a ticket {epoch, id}; events of that ticket reach its listener, every other line is counted
// and dropped. All calls and callbacks happen on the one I/O thread; a callback never comes from
// inside submit, cancel or stop_writing, and may itself call them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "protocol/cache_command.hpp"
#include "protocol/cache_line.hpp"
#include "protocol/conv_line.hpp"
#include "protocol/done_line.hpp"
#include "protocol/gen_command.hpp"
#include "protocol/info_line.hpp"
#include "protocol/pressure_line.hpp"
#include "protocol/progress_line.hpp"
#include "protocol/resume_line.hpp"
#include "protocol/token_line.hpp"

namespace strata::serve {

struct Ticket {
    std::uint64_t epoch = 0;
    std::uint64_t id = 0;
    friend bool operator==(const Ticket&, const Ticket&) = default;
};

enum class FailureKind : std::uint8_t {
    engine_died,    // the engine ended while it worked on this request
    engine_failed,  // state FAILED: no engine will come (text says why)
    start_timeout,  // no engine became ready before the request's deadline
    refused,        // the engine answered ERR; `err_code` says which
    load_refused,   // this machine is not ready for a load; `err_code`: why, as load_refusal_code
    queue_full,
    shutting_down,
};

struct EngineFailure {
    FailureKind kind = FailureKind::engine_died;
    std::string err_code;  // word of protocol::ErrCode when refused, of the cause when load_refused
    std::string text;      // for people; says what happens next
    std::chrono::seconds retry_after{0};
};

// What a request hears. Exactly one of on_done and on_failure comes, as the last call.
class RequestListener {
  public:
    virtual ~RequestListener() = default;
    virtual void on_admitted(const Ticket&) {}  // holds the engine now
    virtual void on_resume(const protocol::ResumeLine&) {}
    virtual void on_progress(const protocol::ProgressLine&) {}
    virtual void on_token(const protocol::TokenLine&) {}
    virtual void on_done(const protocol::DoneLine&) = 0;
    virtual void on_failure(const EngineFailure&) = 0;
};

// How far a request came, as its lines told; of all its passes.
struct TicketProgress {
    std::int64_t prompt_read = 0;  // prompt tokens that the engine had, reused ones included
    std::int64_t reused = 0;
    std::int64_t generated = 0;
};

// What the monitor hears of the running engine, beside each request's own listener. Of a ticket
// exactly one of on_ticket_done and on_ticket_lost comes, also when its client has left, and before
// its listener's last call.
class EngineObserver {
  public:
    virtual ~EngineObserver() = default;
    // Before its prompt is read; again in a further pass.
    virtual void on_ticket_resumed(const Ticket&, const protocol::ResumeLine&) {}
    virtual void on_ticket_done(const Ticket&, const protocol::DoneLine&) {}
    // Refused, or the engine is gone.
    virtual void on_ticket_lost(const Ticket&, const TicketProgress&) {}
    virtual void on_conversation(std::uint64_t /*epoch*/, const protocol::ConvLine&) {}
    virtual void on_pressure(std::uint64_t /*epoch*/, const protocol::PressureLine&) {}
    // A whole answer to CACHE, also to one whose asker waits no more.
    virtual void on_parked_list(std::uint64_t /*epoch*/, const protocol::HeldFigures&) {}
};

enum class CacheOutcome : std::uint8_t {
    listed,       // rows: what is parked after the command
    refused,      // text says why: no such entry
    unsupported,  // this engine has no such command
    no_engine,    // none is ready, or it went before it answered
    late,         // it did not answer in time, or too many have asked
};

struct CacheAnswer {
    CacheOutcome outcome = CacheOutcome::listed;
    std::vector<protocol::CacheRow> rows;
    std::string text;
};
using CacheListener = std::function<void(CacheAnswer)>;

enum class EngineState : std::uint8_t {
    starting,
    preparing,  // before a load: the before_load command runs, or free GPU memory is waited for
    loading,
    ready,
    restarting,
    unloading,  // the engine ends because nobody wants it; a request that comes starts the next one
    unloaded,   // no engine, and none wanted until a request or a person asks for it
    failed,
    stopped,
};

// What /health, /status and the page show; a copy of values.
struct EngineView {
    EngineState state = EngineState::starting;
    std::uint64_t epoch = 0;
    double load_progress = 0.0;               // 0..1 while loading
    std::optional<std::chrono::seconds> eta;  // of the load or the next restart
    std::string failure;       // why there is no engine, in words; "" when there is one
    std::string last_failure;  // the last of these, also when an engine came after it
    std::optional<std::chrono::steady_clock::time_point> last_failure_at;
    std::string refusal_code;  // unloaded because a load was refused: its word
    // A request began this load: those that come meanwhile wait for it as it does.
    bool on_demand = false;
    std::optional<std::chrono::seconds> unload_in;  // when nothing comes until then
    std::optional<protocol::InfoLine> info;         // of the running epoch
    std::size_t queued = 0;
    bool busy = false;  // a request holds the engine
    // Of the request that holds the engine, over all its passes:
    std::uint64_t active_id = 0;
    std::int64_t prompt_tokens = 0;
    std::int64_t prompt_read = 0;
    std::int64_t generated = 0;
    std::int64_t max_tokens = 0;
    std::chrono::steady_clock::time_point active_since{};
    // Counters since the server started.
    std::uint64_t engine_starts = 0;
    std::uint64_t foreign_lines = 0;    // lines of no ticket, or unknown
    std::uint64_t foreign_dones = 0;    // of them: a late, double or foreign DONE
    std::uint64_t unexpected_ends = 0;  // of engines that nobody asked to end
    // Of the running epoch:
    std::int64_t engine_pid = 0;          // 0: no process
    std::int64_t max_context = 0;         // of READY, tokens; 0 before
    std::vector<std::string> last_lines;  // of its stderr, oldest first, printable
    std::uint64_t dropped_log_lines = 0;  // of its stderr, older than those
};

using RequestId = std::uint64_t;  // the server's own, unique for its life

class EngineClient {
  public:
    virtual ~EngineClient() = default;
    // Queues a request (its command's id is set here). The listener is held until its last call.
    virtual RequestId submit(protocol::GenCommand command,
                             std::shared_ptr<RequestListener> listener) = 0;
    // An answer goes on with another command: as submit, but it holds the engine before whatever
    // waits, and a full queue takes it. From inside on_done of the command before it nothing comes
    // between the two.
    virtual RequestId submit_next(protocol::GenCommand command,
                                  std::shared_ptr<RequestListener> listener) = 0;
    // The client left: a queued request leaves the queue and hears nothing more; the running one is
    // stopped (STOP) and the engine counts as held until its DONE came. No call follows on the
    // listener.
    virtual void cancel(RequestId id) = 0;
    // A stop string was found: STOP is sent, on_done still comes.
    virtual void stop_writing(RequestId id) = 0;
    virtual EngineView view() const = 0;

    // Starts the engine if there is none; out of FAILED, too. The callback comes from the loop as
    // soon as nothing is under way any more: the engine is ready, unloaded, failed or stopped.
    virtual void load(std::function<void()> when_settled) = 0;
    // Ends the engine until it is wanted again. False: a request runs or waits; nothing happens.
    virtual bool unload(std::function<void()> when_settled) = 0;

    // Hears everything from now on; must outlive the client's work. Null: nobody.
    virtual void observe(EngineObserver* observer) = 0;
    // Asks the engine about parked conversations; the answer comes once, from the loop.
    virtual void cache(const protocol::CacheCommand& command, CacheListener answer) = 0;
};

}  // namespace strata::serve
