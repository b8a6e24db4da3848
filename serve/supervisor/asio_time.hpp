// The time source of the product: steady_clock and timers of the one io_context.
#pragma once

#include <boost/asio/io_context.hpp>

#include "serve/supervisor/time_source.hpp"

namespace strata::serve {

class AsioTime : public TimeSource {
  public:
    explicit AsioTime(boost::asio::io_context& loop) : loop_(loop) {}
    TimePoint now() const override;
    std::unique_ptr<Alarm> make_alarm() override;
    void post(std::function<void()> work) override;

  private:
    boost::asio::io_context& loop_;
};

}  // namespace strata::serve
