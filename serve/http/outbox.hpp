// The bytes of one answer on their way to the socket: the api room puts in, the session takes out.
//
// 1. What was put in and not yet taken by the client is at most unsent_bytes_max, for a stream; one
//    more byte and the outbox is `stuck`: it holds nothing any more and the session ends the
//    request.
// 2. After close() everything put in is dropped.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>

#include "serve/api/exchange.hpp"
#include "serve/http/response_text.hpp"

namespace strata::serve {

class Outbox final : public ReplySink {
  public:
    // `on_stuck` is called at most once, when the limit is passed.
    Outbox(const boost::asio::any_io_executor& io, ResponseFrame frame,
           std::size_t unsent_bytes_max, std::function<void()> on_stuck);

    // The api room's side
    void reply(Reply reply) override;
    void refuse(const ApiError& error) override;
    void begin_events() override;
    void events(std::string_view frames) override;
    void end_events() override;

    // The session's side
    std::string take();                       // what is to be written now; "" = nothing yet
    void written() { in_flight_bytes_ = 0; }  // what was taken last is with the client
    bool ended() const { return ended_; }
    bool stuck() const { return stuck_; }
    bool streaming() const { return streaming_ && !ended_; }
    bool keep_alive() const { return frame_.keep_alive; }
    void close() { closed_ = true; }
    void wake() { wake_.cancel(); }
    // Until something was put in or wake() was called; true when `time` passed before.
    boost::asio::awaitable<bool> wait(std::chrono::milliseconds time);

  private:
    bool takes() const { return !closed_ && !ended_ && !stuck_; }

    ResponseFrame frame_;
    std::size_t unsent_bytes_max_;
    std::function<void()> on_stuck_;
    boost::asio::steady_timer wake_;
    std::string pending_;
    std::size_t in_flight_bytes_ = 0;
    bool streaming_ = false;
    bool ended_ = false;
    bool stuck_ = false;
    bool closed_ = false;
};

}  // namespace strata::serve
