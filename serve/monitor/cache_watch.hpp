// What the engine tells about its conversations between and beside the rows: the cache as the
// newest word of the running epoch has it, the last events, and counts since the server's start.
// Owns no rows and no window.
//
// Invariants: 1. at most kEventsMax events, newest first; 2. counts never fall, whatever epoch the
// engine is in; 3. the present is that of one epoch and is given only to who asks for that one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <variant>

#include "protocol/conv_line.hpp"
#include "protocol/done_line.hpp"
#include "protocol/pressure_line.hpp"
#include "protocol/resume_line.hpp"
#include "serve/monitor/cache_present.hpp"
#include "serve/monitor/histogram.hpp"

namespace strata::serve {

struct CacheEvent {
    double time_s = 0;  // seconds since 1970
    std::uint64_t epoch = 0;
    std::variant<protocol::ConvLine, protocol::PressureLine> what;
};

// Since the server's start.
struct CacheCounts {
    std::uint64_t parks = 0;
    std::uint64_t restores = 0;  // borrowed ones as well
    std::uint64_t evicted_budget = 0;
    std::uint64_t evicted_slots = 0;
    std::uint64_t released = 0;
    std::uint64_t superseded = 0;
    std::uint64_t lost = 0;
    std::uint64_t skipped = 0;  // lost ones included
    std::uint64_t pressure_events = 0;
    Histogram park_s{kMoveSecondsBounds};
    Histogram restore_s{kMoveSecondsBounds};
};

class CacheWatch {
  public:
    static constexpr std::size_t kEventsMax = 200;  // a busy day's last hour; about 40 KB as JSON

    void done(double time_s, std::uint64_t epoch, const protocol::DoneLine& line);
    void conversation(double time_s, std::uint64_t epoch, const protocol::ConvLine& line);
    void pressure(double time_s, std::uint64_t epoch, const protocol::PressureLine& line);
    // A whole answer to CACHE.
    void listed(double time_s, std::uint64_t epoch, const protocol::HeldFigures& held);
    // A request's prompt is about to be read.
    void resumed(double time_s, std::uint64_t epoch, const protocol::ResumeLine& line);

    const std::deque<CacheEvent>& newest_first() const { return events_; }
    const CacheCounts& counts() const { return counts_; }
    // Empty before the first word of `epoch`, and for every other epoch.
    CachePresent present(std::uint64_t epoch) const;

  private:
    template <class Word>
    void apply(double time_s, std::uint64_t epoch, const Word& word);
    void count(const protocol::ConvLine& line);
    void add(CacheEvent event);

    std::deque<CacheEvent> events_;
    CacheCounts counts_;
    std::uint64_t epoch_ = 0;  // of present_
    CachePresent present_;
};

}  // namespace strata::serve
