// Time as this room sees it: a monotonic clock, one-shot alarms, and "later, from the loop". Tests
// put a clock in its place that only moves when told to.
#pragma once

#include <chrono>
#include <functional>
#include <memory>

namespace strata::serve {

using TimePoint = std::chrono::steady_clock::time_point;
using Milliseconds = std::chrono::milliseconds;

// Rings once, from the loop. Destroying or setting it again withdraws what was set before.
class Alarm {
  public:
    virtual ~Alarm() = default;
    virtual void set(TimePoint when, std::function<void()> ring) = 0;
    virtual void clear() = 0;
};

class TimeSource {
  public:
    virtual ~TimeSource() = default;
    virtual TimePoint now() const = 0;
    virtual std::unique_ptr<Alarm> make_alarm() = 0;
    // Runs `work` from the loop, after the caller has returned, in the order of the calls.
    virtual void post(std::function<void()> work) = 0;
};

}  // namespace strata::serve
