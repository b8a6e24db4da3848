// The queue, the ticket and the listener's last call.
#include "serve/supervisor/request_desk.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "protocol/stop_command.hpp"
#include "serve/supervisor/defences.hpp"

namespace strata::serve {

namespace {

// A full queue of short requests is half empty after about this long.
constexpr std::chrono::seconds kQueueFullRetry{5};

}  // namespace

RequestDesk::RequestDesk(const DeskLimits& limits, TimeSource& time,
                         std::function<void(std::string)> say)
    : limits_(limits),
      time_(time),
      say_(std::move(say)),
      closed_since_(time.now()),
      self_(std::make_shared<RequestDesk*>(this)) {}

void RequestDesk::later(void (RequestDesk::*work)()) {
    time_.post([self = std::weak_ptr<RequestDesk*>(self_), work] {
        if (const auto alive = self.lock()) ((*alive)->*work)();
    });
}

RequestId RequestDesk::submit(protocol::GenCommand command,
                              std::shared_ptr<RequestListener> listener) {
    const RequestId id = ++last_id_;
    command.id = id;
    if (refusing_) {
        reject(id, std::move(listener), *refusing_);
    } else if (queue_.size() >= limits_.queue_max) {
        reject(id, std::move(listener),
               {FailureKind::queue_full, "",
                std::to_string(queue_.size()) +
                    " requests are waiting, which is the most this server queues",
                kQueueFullRetry});
    } else {
        queue_.push_back({id, std::move(command), std::move(listener), time_.now(), std::nullopt});
        later(&RequestDesk::admit_next);
    }
    return id;
}

RequestId RequestDesk::submit_next(protocol::GenCommand command,
                                   std::shared_ptr<RequestListener> listener) {
    const RequestId id = ++last_id_;
    command.id = id;
    if (refusing_) {
        reject(id, std::move(listener), *refusing_);
    } else {
        queue_.push_front({id, std::move(command), std::move(listener), time_.now(), ended_});
        later(&RequestDesk::admit_next);
    }
    return id;
}

void RequestDesk::reject(RequestId id, std::shared_ptr<RequestListener> listener,
                         EngineFailure failure) {
    rejected_[id] = {std::move(listener), std::move(failure)};
    later(&RequestDesk::tell_rejected);
}

void RequestDesk::cancel(RequestId id) {
    if (rejected_.erase(id) > 0) return;
    if (!defended(Defence::cancel_holds)) {
        active_.reset();
        later(&RequestDesk::admit_next);
    }
    if (active_ && active_->ticket.id == id) {
        active_->listener.reset();
        say_stop();
        return;
    }
    const auto waits = [id](const Waiting& waiting) { return waiting.id == id; };
    queue_.erase(std::remove_if(queue_.begin(), queue_.end(), waits), queue_.end());
}

void RequestDesk::stop_writing(RequestId id) {
    if (active_ && active_->ticket.id == id) say_stop();
}

bool RequestDesk::runs_unstopped(std::uint64_t epoch, std::uint64_t id) const {
    return is_active(epoch, id) && !active_->stop_said;
}

void RequestDesk::say_stop() {
    if (std::exchange(active_->stop_said, true)) return;
    say_(protocol::format(protocol::StopCommand{active_->ticket.id}));
}

void RequestDesk::open(std::uint64_t epoch) {
    refusing_.reset();
    open_ = true;
    epoch_ = epoch;
    later(&RequestDesk::admit_next);
}

void RequestDesk::close() {
    if (!std::exchange(open_, false)) return;
    closed_since_ = time_.now();
}

void RequestDesk::engine_gone(const EngineFailure& failure) {
    close();
    if (!active_ || !defended(Defence::death_is_failure)) return;
    if (observer_ != nullptr) {
        observer_->on_ticket_lost(active_->ticket, active_->figures.progress);
    }
    const std::shared_ptr<RequestListener> listener = std::move(active_->listener);
    active_.reset();
    if (listener) listener->on_failure(failure);
}

void RequestDesk::refuse_all(const EngineFailure& failure) {
    close();
    refusing_ = failure;
    // What a listener submits while it hears of its failure is refused by submit.
    std::deque<Waiting> waiting = std::move(queue_);
    queue_.clear();
    for (Waiting& each : waiting) rejected_[each.id] = {std::move(each.listener), failure};
    later(&RequestDesk::tell_rejected);
}

void RequestDesk::expect_engine() {
    refusing_.reset();
    closed_since_ = time_.now();
}

void RequestDesk::tell_rejected() {
    // A listener that submits again at once is told from a later turn of the loop.
    const RequestId last = last_id_;
    while (!rejected_.empty() && rejected_.begin()->first <= last) {
        const Rejected rejected = std::move(rejected_.begin()->second);
        rejected_.erase(rejected_.begin());
        rejected.listener->on_failure(rejected.failure);
    }
}

void RequestDesk::admit_next() {
    if (!open_ || active_ || queue_.empty()) return;
    Waiting first = std::move(queue_.front());
    queue_.pop_front();
    Active active;
    active.ticket = {epoch_, first.id};
    active.listener = first.listener;
    active.further_pass = first.before.has_value();
    active.last_progress = time_.now();
    Figures& figures = active.figures;
    if (first.before) {
        figures = *first.before;
        figures.max_tokens = figures.progress.generated + first.command.max_new;
    } else {
        figures.prompt_tokens = static_cast<std::int64_t>(first.command.ids.size());
        figures.max_tokens = first.command.max_new;
        figures.since = active.last_progress;
    }
    active_ = std::move(active);
    say_(protocol::format(first.command));
    first.listener->on_admitted({epoch_, first.id});
}

bool RequestDesk::is_active(std::uint64_t epoch, std::uint64_t id) const {
    if (!active_) return false;
    if (!defended(Defence::ticket_match)) return true;
    return active_->ticket == Ticket{epoch, id};
}

bool RequestDesk::accept(std::uint64_t epoch, const protocol::Event& event) {
    return std::visit(
        [this, epoch](const auto& line) {
            using Line = std::decay_t<decltype(line)>;
            if constexpr (std::is_same_v<Line, protocol::ResumeLine> ||
                          std::is_same_v<Line, protocol::ProgressLine> ||
                          std::is_same_v<Line, protocol::TokenLine> ||
                          std::is_same_v<Line, protocol::ConvLine> ||
                          std::is_same_v<Line, protocol::DoneLine> ||
                          std::is_same_v<Line, protocol::ErrLine>) {
                return take(epoch, line);
            } else {
                return false;
            }
        },
        event);
}

void RequestDesk::take_position(std::int64_t position) {
    Figures& figures = active_->figures;
    figures.progress.prompt_read = std::min(position, figures.prompt_tokens);
    active_->last_progress = time_.now();
}

bool RequestDesk::take(std::uint64_t epoch, const protocol::ResumeLine& line) {
    if (!is_active(epoch, line.id)) return false;
    take_position(line.reused);
    if (!active_->further_pass) active_->figures.progress.reused = line.reused;
    if (observer_ != nullptr) observer_->on_ticket_resumed(active_->ticket, line);
    if (const auto listener = active_->listener) listener->on_resume(line);
    return true;
}

bool RequestDesk::take(std::uint64_t epoch, const protocol::ProgressLine& line) {
    if (!is_active(epoch, line.id)) return false;
    take_position(line.position);
    if (const auto listener = active_->listener) listener->on_progress(line);
    return true;
}

bool RequestDesk::take(std::uint64_t epoch, const protocol::TokenLine& line) {
    if (!is_active(epoch, line.id)) return false;
    ++active_->figures.progress.generated;
    active_->last_progress = time_.now();
    if (const auto listener = active_->listener) listener->on_token(line);
    return true;
}

bool RequestDesk::take(std::uint64_t epoch, const protocol::ConvLine& line) {
    if (!line.id || !is_active(epoch, *line.id)) return false;
    active_->last_progress = time_.now();
    return true;
}

bool RequestDesk::take(std::uint64_t epoch, const protocol::DoneLine& line) {
    if (!is_active(epoch, line.id)) return false;
    if (observer_ != nullptr) observer_->on_ticket_done(active_->ticket, line);
    const std::shared_ptr<RequestListener> listener = std::move(active_->listener);
    ended_ = active_->figures;
    active_.reset();
    later(&RequestDesk::admit_next);
    if (listener) listener->on_done(line);
    ended_.reset();
    return true;
}

bool RequestDesk::take(std::uint64_t epoch, const protocol::ErrLine& line) {
    if (!is_active(epoch, line.id)) return false;
    // The process ends right after a fatal one: the request then fails with the engine.
    if (line.fatal) return true;
    if (observer_ != nullptr) {
        observer_->on_ticket_lost(active_->ticket, active_->figures.progress);
    }
    const std::shared_ptr<RequestListener> listener = std::move(active_->listener);
    active_.reset();
    later(&RequestDesk::admit_next);
    if (listener) {
        listener->on_failure(
            {FailureKind::refused, std::string(protocol::word(line.code)), line.text, {}});
    }
    return true;
}

TimePoint RequestDesk::deadline(const Waiting& waiting) const {
    return std::max(waiting.since, closed_since_) + limits_.start_wait;
}

std::optional<TimePoint> RequestDesk::next_deadline() const {
    if (open_ || queue_.empty()) return std::nullopt;
    return deadline(queue_.front());
}

void RequestDesk::expire(std::chrono::seconds retry_after) {
    if (open_) return;
    const TimePoint now = time_.now();
    while (!open_ && !queue_.empty() && deadline(queue_.front()) <= now) {
        const Waiting first = std::move(queue_.front());
        queue_.pop_front();
        first.listener->on_failure({FailureKind::start_timeout, "",
                                    "no engine became ready while this request waited; it keeps "
                                    "trying to start, send the request again",
                                    retry_after});
    }
}

std::optional<TimePoint> RequestDesk::last_progress() const {
    if (!active_) return std::nullopt;
    return active_->last_progress;
}

void RequestDesk::forgive(Milliseconds late) {
    if (active_) active_->last_progress = std::min(active_->last_progress + late, time_.now());
}

void RequestDesk::fill(EngineView& view) const {
    view.queued = queue_.size();
    view.busy = active_.has_value();
    if (!active_) return;
    view.active_id = active_->ticket.id;
    const Figures& figures = active_->figures;
    view.prompt_tokens = figures.prompt_tokens;
    view.prompt_read = figures.progress.prompt_read;
    view.generated = figures.progress.generated;
    view.max_tokens = figures.max_tokens;
    view.active_since = figures.since;
}

}  // namespace strata::serve
