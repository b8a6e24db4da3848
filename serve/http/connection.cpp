// Reads and writes on one socket; errors end in "0 bytes" or "false", because every one of them
// means that this client is not there any more. The orderly end of what it sends does not.
#include "serve/http/connection.hpp"

#include <algorithm>
#include <array>
#include <cstdint>

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace strata::serve {

namespace net = boost::asio;

namespace {

constexpr auto kAwait = net::as_tuple(net::use_awaitable);
constexpr std::size_t kReadBytes = 64U << 10U;  // one read: a body of MiB in few calls
// A probe may get lost; three unanswered ones are no accident.
constexpr int kProbes = 3;
// What the kernel may hold of an answer that it has not begun to send: more would only hide from
// the outbox that a client is slow, for MiB of memory a connection.
constexpr int kKernelUnsentBytes = 128 << 10;
constexpr int kProbesInTime = 6;  // so many in the time of silence before the first one

// What Asio has no name for: a whole number at the level of TCP. Its headers bring the numbers.
template <int kName>
class TcpOption {
  public:
    explicit TcpOption(int value) : value_(value) {}
    template <class Protocol>
    int level(const Protocol&) const {
        return IPPROTO_TCP;
    }
    template <class Protocol>
    int name(const Protocol&) const {
        return kName;
    }
    template <class Protocol>
    const int* data(const Protocol&) const {
        return &value_;
    }
    template <class Protocol>
    std::size_t size(const Protocol&) const {
        return sizeof value_;
    }

  private:
    int value_;
};

// Without it a client whose machine went away, or that left without a word while nothing is sent,
// would never be missed.
void ask_when_silent(net::ip::tcp::socket& socket, std::chrono::milliseconds time) {
    const auto seconds = std::chrono::ceil<std::chrono::seconds>(time).count();
    const int idle_s = static_cast<int>(std::max<std::int64_t>(seconds, 1));
    boost::system::error_code ignored;
    socket.set_option(TcpOption<TCP_KEEPIDLE>(idle_s), ignored);
    socket.set_option(TcpOption<TCP_KEEPINTVL>(std::max(idle_s / kProbesInTime, 1)), ignored);
    socket.set_option(TcpOption<TCP_KEEPCNT>(kProbes), ignored);
    socket.set_option(net::socket_base::keep_alive(true), ignored);
}

}  // namespace

Connection::Connection(net::ip::tcp::socket socket, std::chrono::milliseconds still_there_time)
    : socket_(std::move(socket)), timer_(socket_.get_executor()) {
    boost::system::error_code ignored;
    socket_.set_option(net::ip::tcp::no_delay(true), ignored);
    socket_.set_option(TcpOption<TCP_NOTSENT_LOWAT>(kKernelUnsentBytes), ignored);
    ask_when_silent(socket_, still_there_time);
}

std::string_view Connection::buffered() const {
    const net::const_buffer bytes = buffer_.cdata();
    return {static_cast<const char*>(bytes.data()), bytes.size()};
}

net::awaitable<std::size_t> Connection::read_more(std::size_t buffered_max) {
    const std::size_t room = buffered_max - std::min(buffered_max, buffer_.size());
    if (room == 0) co_return 0;
    const net::mutable_buffer space = buffer_.prepare(std::min(room, kReadBytes));
    const auto [code, count] = co_await socket_.async_read_some(space, kAwait);
    buffer_.commit(count);
    input_ended_ = code == net::error::eof;
    co_return count;
}

net::awaitable<void> Connection::gone() {
    const auto [code] = co_await socket_.async_wait(net::socket_base::wait_error, kAwait);
    static_cast<void>(code);
}

net::awaitable<bool> Connection::write_all(std::string_view bytes,
                                           std::chrono::milliseconds stall_time) {
    while (!bytes.empty()) {
        arm(std::chrono::steady_clock::now() + stall_time);
        const auto [code, count] =
            co_await socket_.async_write_some(net::buffer(bytes.data(), bytes.size()), kAwait);
        disarm();
        if (code) co_return false;
        bytes.remove_prefix(count);
    }
    co_return true;
}

net::awaitable<void> Connection::linger(std::chrono::milliseconds time) {
    boost::system::error_code ignored;
    socket_.shutdown(net::ip::tcp::socket::shutdown_send, ignored);
    if (ignored) co_return;
    arm(std::chrono::steady_clock::now() + time);
    std::array<char, 16U << 10U> sink{};
    for (;;) {
        const auto [code, count] = co_await socket_.async_read_some(net::buffer(sink), kAwait);
        if (code) break;
    }
    disarm();
}

void Connection::arm(TimePoint deadline) {
    expired_ = false;
    timer_.expires_at(deadline);
    timer_.async_wait([weak = weak_from_this(), number = ++armed_](boost::system::error_code code) {
        const std::shared_ptr<Connection> self = weak.lock();
        if (code || !self || self->armed_ != number) return;
        self->expired_ = true;
        self->cancel();
    });
}

void Connection::disarm() {
    ++armed_;
    timer_.cancel();
}

void Connection::cancel() {
    boost::system::error_code ignored;
    socket_.cancel(ignored);
}

void Connection::close() {
    boost::system::error_code ignored;
    socket_.close(ignored);
}

}  // namespace strata::serve
