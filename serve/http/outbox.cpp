// Framing and the limit on unsent bytes.
#include "serve/http/outbox.hpp"

#include <utility>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace strata::serve {

namespace net = boost::asio;

Outbox::Outbox(const net::any_io_executor& io, ResponseFrame frame, std::size_t unsent_bytes_max,
               std::function<void()> on_stuck)
    : frame_(std::move(frame)),
      unsent_bytes_max_(unsent_bytes_max),
      on_stuck_(std::move(on_stuck)),
      wake_(io) {}

void Outbox::reply(Reply reply) {
    if (!takes() || streaming_) return;
    pending_ = response_bytes(reply, frame_);
    ended_ = true;
    wake();
}

void Outbox::refuse(const ApiError& error) {
    reply(error_reply(error));
}

void Outbox::begin_events() {
    if (!takes() || streaming_) return;
    streaming_ = true;
    if (frame_.http_1_0) frame_.keep_alive = false;  // the body ends with the connection
    pending_ = event_stream_head(frame_);
    wake();
}

void Outbox::events(std::string_view frames) {
    if (!takes() || !streaming_ || frames.empty()) return;
    if (frame_.http_1_0) {
        pending_ += frames;
    } else {
        append_chunk(pending_, frames);
    }
    if (pending_.size() + in_flight_bytes_ > unsent_bytes_max_) {
        stuck_ = true;
        pending_ = std::string();
        on_stuck_();
    }
    wake();
}

void Outbox::end_events() {
    if (!takes() || !streaming_) return;
    if (!frame_.http_1_0) pending_ += kLastChunk;
    ended_ = true;
    wake();
}

std::string Outbox::take() {
    in_flight_bytes_ = pending_.size();
    return std::exchange(pending_, std::string());
}

net::awaitable<bool> Outbox::wait(std::chrono::milliseconds time) {
    wake_.expires_after(time);
    const auto [code] = co_await wake_.async_wait(net::as_tuple(net::use_awaitable));
    co_return !code;
}

}  // namespace strata::serve
