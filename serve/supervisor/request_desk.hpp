// The queue and the one request that holds the engine. Owns who hears what and when; knows nothing
// of processes, signals or restarts.
//
// Invariants:
// (1) a listener that was not cancelled hears exactly one of on_done and on_failure, as its last
// call; (2) at most one request is active; it was first in the queue when it became so, and its GEN
// line was
//     written to the engine of the epoch of its ticket;
// (3) an event moves the desk only if it carries the ticket of the active request;
// (4) a cancelled active request keeps the engine until its DONE or ERR, or until the engine is
// gone; (5) ids are counted up for the life of the server and never used again; (6) no listener is
// called from inside submit, cancel or stop_writing.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "protocol/event.hpp"
#include "serve/supervisor/engine_client.hpp"
#include "serve/supervisor/time_source.hpp"

namespace strata::serve {

struct DeskLimits {
    std::size_t queue_max = 64;
    // How long a request waits for an engine to come; its client has its own patience.
    Milliseconds start_wait = std::chrono::seconds(30);
};

class RequestDesk {
  public:
    // `say` writes one line to the engine that runs now.
    RequestDesk(const DeskLimits& limits, TimeSource& time, std::function<void(std::string)> say);

    RequestId submit(protocol::GenCommand command, std::shared_ptr<RequestListener> listener);
    // Before everything that waits, and not refused by a full queue.
    RequestId submit_next(protocol::GenCommand command, std::shared_ptr<RequestListener> listener);
    // It is answered by this epoch's engine, and nobody asked for its end.
    bool runs_unstopped(std::uint64_t epoch, std::uint64_t id) const;
    void cancel(RequestId id);
    void stop_writing(RequestId id);

    // Hears of the end of every ticket; null: nobody.
    void observe(EngineObserver* observer) { observer_ = observer; }

    // An engine is ready: admissions begin.
    void open(std::uint64_t epoch);
    // No more admissions; the active request may still end.
    void close();
    // The engine is gone; the active request, if there is one, fails.
    void engine_gone(const EngineFailure& failure);
    // No engine will come: everything that waits fails, and what is submitted from now on, until
    // open.
    void refuse_all(const EngineFailure& failure);

    // Waiting makes sense again: what is submitted from now on is queued.
    void expect_engine();

    // False: not an event of the active request. `epoch` is that of the engine that wrote the line.
    bool accept(std::uint64_t epoch, const protocol::Event& event);

    // Fails what has waited too long; `retry_after` is what its listeners are told.
    void expire(std::chrono::seconds retry_after);
    std::optional<TimePoint> next_deadline() const;

    bool busy() const { return active_.has_value(); }
    // No request runs or waits.
    bool idle() const { return !active_ && queue_.empty(); }
    bool reading() const { return active_ && active_->figures.progress.generated == 0; }
    std::optional<TimePoint> last_progress() const;
    // Time that was lost by our own fault does not count against the engine.
    void forgive(Milliseconds late);
    void fill(EngineView& view) const;

  private:
    // What a request came to so far. A further pass goes on with those of the one before it: what
    // that one wrote is part of its prompt, and counts once.
    struct Figures {
        std::int64_t prompt_tokens = 0;  // of the first pass
        TicketProgress progress;
        std::int64_t max_tokens = 0;
        TimePoint since{};  // when it held the engine first
    };
    struct Waiting {
        RequestId id = 0;
        protocol::GenCommand command;
        std::shared_ptr<RequestListener> listener;
        TimePoint since{};
        std::optional<Figures> before;  // of the pass that it goes on with
    };
    struct Active {
        Ticket ticket;
        std::shared_ptr<RequestListener> listener;  // null once cancelled
        bool stop_said = false;
        bool further_pass = false;
        Figures figures;
        TimePoint last_progress{};
    };
    struct Rejected {
        std::shared_ptr<RequestListener> listener;
        EngineFailure failure;
    };

    void reject(RequestId id, std::shared_ptr<RequestListener> listener, EngineFailure failure);
    void later(void (RequestDesk::*work)());
    void admit_next();
    void tell_rejected();
    void say_stop();
    void take_position(std::int64_t position);
    bool is_active(std::uint64_t epoch, std::uint64_t id) const;
    TimePoint deadline(const Waiting& waiting) const;
    bool take(std::uint64_t epoch, const protocol::ResumeLine& line);
    bool take(std::uint64_t epoch, const protocol::ProgressLine& line);
    bool take(std::uint64_t epoch, const protocol::TokenLine& line);
    bool take(std::uint64_t epoch, const protocol::ConvLine& line);
    bool take(std::uint64_t epoch, const protocol::DoneLine& line);
    bool take(std::uint64_t epoch, const protocol::ErrLine& line);

    DeskLimits limits_;
    TimeSource& time_;
    std::function<void(std::string)> say_;
    EngineObserver* observer_ = nullptr;
    RequestId last_id_ = 0;
    std::deque<Waiting> queue_;
    std::optional<Active> active_;
    std::optional<Figures> ended_;            // of the request whose on_done is being called
    std::map<RequestId, Rejected> rejected_;  // refused by submit, told from the loop
    std::optional<EngineFailure> refusing_;
    bool open_ = false;
    std::uint64_t epoch_ = 0;
    TimePoint closed_since_;
    // Work that was posted outlives the desk only as a look at this.
    std::shared_ptr<RequestDesk*> self_;
};

}  // namespace strata::serve
