// See serve/supervisor/cache_desk.hpp.
#include "serve/supervisor/cache_desk.hpp"

#include <utility>

namespace strata::serve {

CacheDesk::CacheDesk(TimeSource& time, std::function<void(std::string)> say)
    : time_(time), say_(std::move(say)), alarm_(time.make_alarm()) {}

void CacheDesk::ask(const protocol::CacheCommand& command, CacheListener answer) {
    if (asked_.size() >= kAskedMax) {
        time_.post([answer = std::move(answer)] { answer({CacheOutcome::late, {}, {}}); });
        return;
    }
    asked_.push_back({std::move(answer), time_.now() + kAnswerWait});
    set_alarm();
    say_(protocol::format(command));
}

bool CacheDesk::take(const protocol::CacheLine& line) {
    if (asked_.empty()) return false;
    if (line.row) {
        if (rows_.size() < kRowsMax) rows_.push_back(*line.row);
        return true;
    }
    end_first({CacheOutcome::listed, std::exchange(rows_, {}), {}});
    return true;
}

bool CacheDesk::refuse(const protocol::ErrLine& line) {
    if (asked_.empty() || line.id != 0) return false;
    rows_.clear();
    end_first({line.code == protocol::ErrCode::unsupported ? CacheOutcome::unsupported
                                                           : CacheOutcome::refused,
               {},
               line.text});
    return true;
}

void CacheDesk::engine_gone() {
    rows_.clear();
    while (!asked_.empty()) end_first({CacheOutcome::no_engine, {}, {}});
}

void CacheDesk::end_first(CacheAnswer answer) {
    const CacheListener listener = std::move(asked_.front().answer);
    asked_.pop_front();
    set_alarm();
    if (listener) listener(std::move(answer));
}

void CacheDesk::set_alarm() {
    alarm_->clear();
    for (const Asked& each : asked_) {
        if (!each.answer) continue;
        alarm_->set(each.until, [this] { expire(); });
        return;
    }
}

void CacheDesk::expire() {
    const TimePoint now = time_.now();
    std::vector<CacheListener> late;
    for (Asked& each : asked_) {
        if (each.answer && each.until <= now) late.push_back(std::exchange(each.answer, nullptr));
    }
    set_alarm();
    for (const CacheListener& listener : late) listener({CacheOutcome::late, {}, {}});
}

}  // namespace strata::serve
