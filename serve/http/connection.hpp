// One accepted socket with its read buffer and its one deadline. Owns reading, writing and waiting
// with a time limit; what the bytes mean is request_reader's and session's.
//
// 1. At most one deadline is armed; when it passes, every operation of the socket is cancelled.
// 2. Reads append to the buffer; only its consumer removes.
// 3. The end of what a client sends is not its leaving: a client that shut down its sending half
//    still reads. What tells a reset connection is gone(), and a write that fails.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string_view>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/beast/core/flat_buffer.hpp>

namespace strata::serve {

class Connection : public std::enable_shared_from_this<Connection> {
  public:
    using TimePoint = std::chrono::steady_clock::time_point;

    // The kernel asks a peer that has been silent for `still_there_time` whether it still knows
    // this connection.
    Connection(boost::asio::ip::tcp::socket socket, std::chrono::milliseconds still_there_time);

    // More bytes into the buffer, at most up to `buffered_max` in all; 0: the client sends nothing
    // more, an error came, or the deadline passed.
    boost::asio::awaitable<std::size_t> read_more(std::size_t buffered_max);
    bool input_ended() const { return input_ended_; }  // the client sends nothing more
    // Until the connection is known to be broken, or cancel().
    boost::asio::awaitable<void> gone();
    // False: the client is gone, or took nothing for `stall_time`.
    boost::asio::awaitable<bool> write_all(std::string_view bytes,
                                           std::chrono::milliseconds stall_time);
    // Says that nothing more will come, then reads what the client still sends, so that it can read
    // our answer before the connection is reset.
    boost::asio::awaitable<void> linger(std::chrono::milliseconds time);

    std::string_view buffered() const;
    void consume(std::size_t bytes) { buffer_.consume(bytes); }

    void arm(TimePoint deadline);
    void disarm();
    bool expired() const { return expired_; }  // the deadline armed last has passed

    void cancel();  // ends outstanding operations
    void close();
    boost::asio::any_io_executor executor() { return socket_.get_executor(); }

  private:
    boost::asio::ip::tcp::socket socket_;
    boost::beast::flat_buffer buffer_;
    boost::asio::steady_timer timer_;
    std::uint64_t armed_ = 0;  // number of the deadline armed last
    bool expired_ = false;
    bool input_ended_ = false;
};

}  // namespace strata::serve
