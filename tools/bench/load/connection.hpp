// One non-blocking client connection of the load test.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace strata::bench {

enum class ClientKind : std::uint8_t { stream, slow_headers, idle, normal };

class Connection {
  public:
    Connection(std::uint16_t port, int epoll);
    ~Connection();
    Connection(const Connection&) = delete;
    Connection& operator=(const Connection&) = delete;

    bool open() const { return fd_ >= 0; }
    void close();
    // False: the server has ended the connection.
    bool send(std::string_view bytes);
    // Reads what is there. False at the end.
    bool receive();

    ClientKind kind = ClientKind::idle;
    std::string received;    // not consumed
    std::size_t number = 0;  // of the stream
    std::size_t chunks = 0;  // good ones so far
    bool ended = false;      // [DONE] came
    std::int64_t asked_ns = 0;
    bool first_byte = false;
    std::size_t trickled = 0;  // bytes of a head that were sent

  private:
    int fd_ = -1;
};

}  // namespace strata::bench
