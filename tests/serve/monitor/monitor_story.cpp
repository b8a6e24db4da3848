#include "tests/serve/monitor/monitor_story.hpp"

#include <catch2/catch.hpp>

namespace strata::serve::tests {

protocol::DoneLine done_of(const std::string& line) {
    auto parsed = protocol::parse_done_line(line);
    REQUIRE(parsed.ok());
    return *parsed;
}

protocol::ConvLine conv_of(const std::string& line) {
    auto parsed = protocol::parse_conv_line(line);
    REQUIRE(parsed.ok());
    return *parsed;
}

protocol::PressureLine pressure_of(const std::string& line) {
    auto parsed = protocol::parse_pressure_line(line);
    REQUIRE(parsed.ok());
    return *parsed;
}

HistoryRow ended_row(std::string id, Ticket ticket, double end_s, double duration_s,
                     double queue_ms) {
    HistoryRow row;
    row.time_s = end_s;
    row.request_id = std::move(id);
    row.epoch = ticket.epoch;
    row.ticket = ticket.id;
    row.began_s = end_s - duration_s;
    row.admitted_s = row.began_s + queue_ms / 1000;
    row.duration_s = duration_s;
    row.queue_ms = queue_ms;
    row.finish = protocol::Finish::stop;
    return row;
}

void MonitorStory::answered(HistoryRow row, const protocol::DoneLine& done) {
    monitor.on_ticket_done({row.epoch, row.ticket}, done);
    row.done = done;
    row.prompt_length = done.prompt_tokens;
    row.passes = 1;
    monitor.ended(std::move(row), std::nullopt);
}

void MonitorStory::simple(std::uint64_t epoch, std::int64_t prompt, std::int64_t reused,
                          bool switched, bool restored) {
    const std::uint64_t ticket = ++last_ticket_;
    protocol::DoneLine done;
    done.id = ticket;
    done.prompt_tokens = prompt;
    done.reused = reused;
    done.prompt_read = prompt - reused;
    done.generated = 5;
    done.cache_fields = protocol::CacheFields{switched, restored, 1, 1000, 0};
    done.retained = 0;
    answered(ended_row("r" + std::to_string(ticket), {epoch, ticket}, now_s, 1, 0), done);
}

}  // namespace strata::serve::tests
