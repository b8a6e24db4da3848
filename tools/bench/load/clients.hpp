// Many clients on one epoll loop: streams that check every chunk, connections that trickle their
// headers, connections that say nothing, and clients that ask again and again.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tools/bench/load/connection.hpp"
#include "tools/bench/load/lanes_engine.hpp"

namespace strata::bench {

struct StreamFigures {
    std::uint64_t chunks = 0;
    std::uint64_t faults = 0;          // lost, reordered, foreign, or a stream without its end
    std::vector<double> latencies_ms;  // from the engine's saying a token to its reading here
    std::vector<long> resident_kib;    // of the server, once a second
};

struct FirstByteFigures {
    std::uint64_t requests = 0;
    std::uint64_t faults = 0;           // answers that were no stream
    std::uint64_t slow_opened = 0;      // slow connections in all: the server ends each in its time
    std::vector<double> first_byte_ms;  // from the request's last byte to the answer's first
};

struct StreamPlan {
    std::size_t streams = 512;
    std::size_t tokens = 1500;  // of each
    std::size_t skip = 100;     // of each: the beginning, while the others still open
};

struct SlowPlan {
    std::size_t slow = 2000;
    std::size_t idle = 2000;
    std::size_t normal = 32;
    std::chrono::seconds time{30};
};

class Clients {
  public:
    explicit Clients(std::uint16_t port);
    ~Clients();
    Clients(const Clients&) = delete;
    Clients& operator=(const Clients&) = delete;

    StreamFigures run_streams(const StreamPlan& plan, const std::vector<std::string>& words,
                              const SaidTimes& said, int server_pid);
    // `slow` connections that trickle their headers, `idle` ones that say nothing, and `normal`
    // clients that are measured once the server has taken all of them.
    FirstByteFigures run_beside_slow(const SlowPlan& plan, int server_pid);

  private:
    Connection& open(ClientKind kind);
    // As many as the server accepts at a time: more would wait in the kernel for a retransmission.
    void open_many(ClientKind kind, std::size_t count, int server_pid);
    // Connections that became readable; those whose server ended them come with ended = true.
    std::vector<Connection*> readable(int wait_ms);
    void trickle(FirstByteFigures& figures);
    static void ask(Connection& client);

    std::uint16_t port_;
    int epoll_ = -1;
    std::vector<std::unique_ptr<Connection>> connections_;
};

}  // namespace strata::bench
