// The whole product under load: strata-serve as a process, its supervisor, and an engine process
// behind its pipes (turn_engine). Everything it makes is in a folder of its own and goes with it.
#pragma once

#include <string>

#include "tools/bench/load/turn_engine.hpp"

namespace strata::bench {

class WholeServer {
  public:
    // `own_program` is started as the engine: "own_program --as-engine ...". port() is 0 when the
    // server does not get ready.
    WholeServer(const std::string& server_program, const std::string& own_program,
                const std::string& model, TurnPlan plan);
    ~WholeServer();
    WholeServer(const WholeServer&) = delete;
    WholeServer& operator=(const WholeServer&) = delete;

    std::uint16_t port() const { return port_; }
    pid_t pid() const { return pid_; }
    const SaidTimes& said() const { return said_; }
    bool ended();  // by itself

  private:
    void write_engine(const std::string& own_program);
    void start(const std::string& server_program, const std::string& model);
    void read_port();

    std::string folder_;
    TurnPlan plan_;
    SaidTimes said_;
    pid_t pid_ = -1;
    std::uint16_t port_ = 0;
};

}  // namespace strata::bench
