// Timers of the io_context as alarms.
#include "serve/supervisor/asio_time.hpp"

#include <utility>

#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>

#include "serve/supervisor/defences.hpp"

namespace strata::serve {

namespace {

// A handler that was already queued when the alarm was cleared or set again must not ring: each
// setting has a number, and a handler rings only for the latest one.
class AsioAlarm : public Alarm {
  public:
    explicit AsioAlarm(boost::asio::io_context& loop) : timer_(loop) {}
    ~AsioAlarm() override { clear(); }

    void set(TimePoint when, std::function<void()> ring) override {
        const std::uint64_t number = ++*setting_;
        timer_.expires_at(when);
        timer_.async_wait([setting = setting_, number,
                           ring = std::move(ring)](const boost::system::error_code& error) {
            if (!error && *setting == number) ring();
        });
    }

    void clear() override {
        ++*setting_;
        timer_.cancel();
    }

  private:
    boost::asio::steady_timer timer_;
    std::shared_ptr<std::uint64_t> setting_ = std::make_shared<std::uint64_t>(0);
};

}  // namespace

TimePoint AsioTime::now() const {
#ifdef STRATA_DEFENCE_SWITCHES
    if (!defended(Defence::steady_clock)) return wall_clock();
#endif
    return std::chrono::steady_clock::now();
}

std::unique_ptr<Alarm> AsioTime::make_alarm() {
    return std::make_unique<AsioAlarm>(loop_);
}

void AsioTime::post(std::function<void()> work) {
    boost::asio::post(loop_, std::move(work));
}

}  // namespace strata::serve
