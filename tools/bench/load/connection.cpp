#include "tools/bench/load/connection.hpp"

#include <array>
#include <cerrno>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace strata::bench {

namespace {

constexpr std::size_t kReadBytes = 64U << 10U;

}  // namespace

Connection::Connection(std::uint16_t port, int epoll) {
    fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd_ < 0 || ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
        close();
        return;
    }
    const int on = 1;
    ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    epoll_event wanted{};
    wanted.events = EPOLLIN | EPOLLRDHUP;
    wanted.data.ptr = this;
    ::epoll_ctl(epoll, EPOLL_CTL_ADD, fd_, &wanted);
}

Connection::~Connection() {
    close();
}

void Connection::close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
}

bool Connection::send(std::string_view bytes) {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
           static_cast<ssize_t>(bytes.size());
}

bool Connection::receive() {
    std::array<char, kReadBytes> buffer{};
    const ssize_t count = ::recv(fd_, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (count <= 0) return false;
    received.append(buffer.data(), static_cast<std::size_t>(count));
    return true;
}

}  // namespace strata::bench
