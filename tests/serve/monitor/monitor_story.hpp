// Builders of the Monitor's tests: DONE lines, rows, and a monitor whose clock the test sets.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "serve/monitor/monitor.hpp"

namespace strata::serve::tests {

// Parsed from the wire's own words, so that a field that moves is seen here.
protocol::DoneLine done_of(const std::string& line);
protocol::ConvLine conv_of(const std::string& line);
protocol::PressureLine pressure_of(const std::string& line);

// A row as the api room makes it: `end_s` minus `duration_s` is its arrival.
HistoryRow ended_row(std::string id, Ticket ticket, double end_s, double duration_s,
                     double queue_ms);

struct MonitorStory {
    double now_s = 0;
    Monitor monitor;

    explicit MonitorStory(double started_s) : now_s(started_s), monitor([this] { return now_s; }) {}
    // The client heard the end: DONE comes first, then the row.
    void answered(HistoryRow row, const protocol::DoneLine& done);
    // A DONE of this prompt, with the cache's fields, of a request that nobody left.
    void simple(std::uint64_t epoch, std::int64_t prompt, std::int64_t reused, bool switched,
                bool restored);

  private:
    std::uint64_t last_ticket_ = 0;
};

}  // namespace strata::serve::tests
