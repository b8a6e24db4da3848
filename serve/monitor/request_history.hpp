// What the server remembers of finished requests: a ring of the newest ones and totals since its
// start. A DONE line travels whole into its row; nothing is derived from it here.
//
// Invariants: 1. at most kRowsMax rows, of which at most kRefusedRowsMax never held the engine: a
// client that is refused again and again must not push the others out; 2. rows are in order of
// their end; 3. totals count every row that was ever added and never fall, and are the sums of the
// rows: prompt tokens are those that were taken in (reused and read), not those that were sent;
// 4. a refused request adds itself to the refused ones and nothing else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "protocol/done_line.hpp"

namespace strata::serve {

struct HistoryRow {
    double time_s = 0;                       // end of the request, seconds since 1970
    std::string request_id;                  // x-request-id
    std::uint64_t epoch = 0;                 // of its ticket; 0 = it never held the engine
    std::uint64_t ticket = 0;                // of the first pass
    int passes = 0;                          // of the engine that began
    bool unended = false;                    // the last of them never said DONE: how long it wrote
                                             // is not known, nor then how long all of it took
    double began_s = 0;                      // arrival, seconds since 1970
    std::optional<double> admitted_s;        // when it held the engine, seconds since 1970
    std::string first_words;                 // of its question; "" = not kept
    double duration_s = 0;                   // arrival to end
    std::optional<double> queue_ms;          // arrival to holding the engine, or to leaving the
                                             // queue; none = it never was in the queue
    std::optional<double> ttft_ms;           // arrival to the first token; none = no token came
    std::optional<protocol::DoneLine> done;  // none = the engine never said DONE
    std::string failure;                     // why not, in words
    protocol::Finish finish = protocol::Finish::error;  // how it ended for the client
    std::string refusal;                        // type of its error; "" = the engine was asked
    std::optional<std::int64_t> prompt_length;  // tokens that the client sent
    std::int64_t prompt_tokens = 0;             // these three count when there is no DONE
    std::int64_t reused = 0;                    // of prompt_tokens
    std::int64_t output_tokens = 0;
};

// Prompt tokens that the engine had of a request, and how many of them it had before.
struct TakenIn {
    std::int64_t prompt_tokens = 0;
    std::int64_t reused = 0;
};
TakenIn taken_in(const HistoryRow& row);

struct HistoryTotals {
    std::uint64_t requests = 0;  // without the refused ones
    std::uint64_t refused = 0;
    std::int64_t prompt_tokens = 0;
    std::int64_t reused_tokens = 0;
    std::int64_t output_tokens = 0;
    double prompt_ms = 0;
    double decode_ms = 0;
    std::uint64_t switches = 0;
    std::uint64_t hits = 0;  // switches that came back from a parked conversation
    double since_s = 0;      // seconds since 1970
};

class RequestHistory {
  public:
    static constexpr std::size_t kRowsMax = 500;  // a day of a busy user; about 300 KB
    // Leaves most of the 50 newest rows, which is what a page asks for, to the others.
    static constexpr std::size_t kRefusedRowsMax = 20;

    explicit RequestHistory(double started_s) { totals_.since_s = started_s; }
    void add(HistoryRow row);
    // Refused before anything was known of it: no row.
    void refused() { ++totals_.refused; }
    const std::deque<HistoryRow>& newest_first() const { return rows_; }
    const HistoryTotals& totals() const { return totals_; }

  private:
    void count(const HistoryRow& row);
    void drop_oldest_refused();

    std::deque<HistoryRow> rows_;
    std::size_t refused_rows_ = 0;  // of rows_
    HistoryTotals totals_;
};

}  // namespace strata::serve
