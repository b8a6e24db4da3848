// A clock that moves only when told to.
#include "tests/serve/supervisor/fake_time.hpp"

#include <optional>

namespace strata::serve::tests {

class FakeTime::FakeAlarm : public Alarm {
  public:
    explicit FakeAlarm(FakeTime& owner) : owner_(owner) {}
    ~FakeAlarm() override { clear(); }

    void set(TimePoint when, std::function<void()> ring) override {
        clear();
        key_ = Key{when, ++owner_.settings_};
        owner_.alarms_[*key_] = std::move(ring);
    }

    void clear() override {
        if (key_) owner_.alarms_.erase(*key_);
        key_.reset();
    }

  private:
    FakeTime& owner_;
    std::optional<Key> key_;
};

std::unique_ptr<Alarm> FakeTime::make_alarm() {
    return std::make_unique<FakeAlarm>(*this);
}

void FakeTime::settle() {
    for (;;) {
        if (!posted_.empty()) {
            const std::function<void()> work = std::move(posted_.front());
            posted_.pop_front();
            work();
        } else if (!alarms_.empty() && alarms_.begin()->first.first <= now_) {
            const std::function<void()> ring = std::move(alarms_.begin()->second);
            alarms_.erase(alarms_.begin());
            ring();
        } else {
            return;
        }
    }
}

void FakeTime::advance(Milliseconds span) {
    const TimePoint until = now_ + span;
    settle();
    while (!alarms_.empty() && alarms_.begin()->first.first <= until) {
        now_ = std::max(now_, alarms_.begin()->first.first);
        settle();
    }
    now_ = until;
}

}  // namespace strata::serve::tests
