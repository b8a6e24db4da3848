// The questions about parked conversations that wait for the engine's answer. The engine answers
// CACHE lines in their order, each with a whole list or one ERR without a request's id.
//
// Invariants: 1. every callback is called once, from the loop or from inside take, refuse or
// engine_gone; 2. an answer that comes too late belongs to its own question, never to the next one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "serve/supervisor/engine_client.hpp"
#include "serve/supervisor/time_source.hpp"

namespace strata::serve {

class CacheDesk {
  public:
    // Between two prompt chunks, and after a restore at the latest, the engine reads its commands.
    static constexpr Milliseconds kAnswerWait = std::chrono::seconds(10);
    static constexpr std::size_t kAskedMax = 32;   // unanswered at a time; a page asks one by one
    static constexpr std::size_t kRowsMax = 4096;  // of a list; more entries than slots allow

    // `say` writes one line to the engine that runs now.
    CacheDesk(TimeSource& time, std::function<void(std::string)> say);

    void ask(const protocol::CacheCommand& command, CacheListener answer);
    bool waits() const { return !asked_.empty(); }
    // False: nobody asked.
    bool take(const protocol::CacheLine& line);
    bool refuse(const protocol::ErrLine& line);
    // No answer will come.
    void engine_gone();

  private:
    struct Asked {
        CacheListener answer;  // null once it was told that it is too late
        TimePoint until{};
    };

    void end_first(CacheAnswer answer);
    void set_alarm();
    void expire();

    TimeSource& time_;
    std::function<void(std::string)> say_;
    std::deque<Asked> asked_;
    std::vector<protocol::CacheRow> rows_;  // of the first one
    std::unique_ptr<Alarm> alarm_;
};

}  // namespace strata::serve
