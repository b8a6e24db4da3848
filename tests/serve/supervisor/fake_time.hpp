// A clock that moves only when told to, with the alarms and posted work of the supervisor.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "serve/supervisor/time_source.hpp"

namespace strata::serve::tests {

class FakeTime : public TimeSource {
  public:
    TimePoint now() const override { return now_; }
    std::unique_ptr<Alarm> make_alarm() override;
    void post(std::function<void()> work) override { posted_.push_back(std::move(work)); }

    // Runs posted work and alarms that are due, until there is none.
    void settle();
    // Moves the clock from alarm to alarm to `span` from now, settling at each.
    void advance(Milliseconds span);
    // Moves the clock at once, as when this process stood still; alarms then ring late.
    void jump(Milliseconds span) { now_ += span; }

  private:
    class FakeAlarm;
    using Key = std::pair<TimePoint, std::uint64_t>;  // when, and in the order of setting

    TimePoint now_{std::chrono::hours(1)};
    std::uint64_t settings_ = 0;
    std::map<Key, std::function<void()>> alarms_;
    std::deque<std::function<void()>> posted_;
};

}  // namespace strata::serve::tests
