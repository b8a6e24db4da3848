// The server's memory of its requests and of the engine's cache: what /metrics is made of. Owns the
// waiting of a row for its DONE, and nothing of JSON, HTTP or time.
//
// Invariants: 1. a request is one row, whatever passes it took; 2. a row whose client left while it
// held the engine waits for the end of its ticket, so that the engine's figures count once each;
// 3. a DONE reaches rows and the present by its ticket alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "serve/monitor/cache_watch.hpp"
#include "serve/monitor/request_counts.hpp"
#include "serve/monitor/request_history.hpp"
#include "serve/supervisor/engine_client.hpp"

namespace strata::serve {

class Monitor final : public EngineObserver {
  public:
    static constexpr std::size_t kWordsMax = 512;  // conversations whose first words are kept

    // `now_s` gives seconds since 1970.
    explicit Monitor(std::function<double()> now_s);

    // A request ended for its client. `open`: the ticket that it still holds.
    void ended(HistoryRow row, const std::optional<Ticket>& open);
    // One was refused before it became a request: `type` is that of the error.
    void refused(const std::string& type);

    void on_ticket_resumed(const Ticket& ticket, const protocol::ResumeLine& line) override;
    void on_ticket_done(const Ticket& ticket, const protocol::DoneLine& line) override;
    void on_ticket_lost(const Ticket& ticket, const TicketProgress& progress) override;
    void on_conversation(std::uint64_t epoch, const protocol::ConvLine& line) override;
    void on_pressure(std::uint64_t epoch, const protocol::PressureLine& line) override;
    void on_parked_list(std::uint64_t epoch, const protocol::HeldFigures& held) override;

    const RequestHistory& history() const { return history_; }
    const CacheWatch& watch() const { return watch_; }
    const RequestCounts& counts() const { return counts_; }
    // By the conversation's number in the newest epoch that had any.
    const std::map<std::uint64_t, std::string>& first_words() const { return words_; }

  private:
    using TicketKey = std::pair<std::uint64_t, std::uint64_t>;

    void add(HistoryRow row);
    void keep_words(const HistoryRow& row);

    std::function<double()> now_s_;
    RequestHistory history_;
    CacheWatch watch_;
    RequestCounts counts_;
    std::map<TicketKey, HistoryRow> open_;
    std::uint64_t words_epoch_ = 0;
    std::map<std::uint64_t, std::string> words_;
};

}  // namespace strata::serve
