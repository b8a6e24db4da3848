// Lines that came and wait for the main loop. The reader thread puts them in, parsed; a STOP is not
// queued but written to the StopBoard at once, and so is the end of everything at QUIT.
//
// Invariants: (1) lines come out in the order in which they came; (2) after close() nothing is put
// in, and what is in still comes out; (3) a request's id is on the board before its line can come
// out.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <variant>

#include "protocol/command.hpp"
#include "protocol/line_reader.hpp"
#include "strata/core/stop_board.hpp"
#include "strata/engine.hpp"

namespace strata {

struct ReceivedLine {
    std::variant<protocol::Command, protocol::ParseError> what;
    TimePoint at;
};

class CommandInbox {
  public:
    explicit CommandInbox(std::shared_ptr<StopBoard> board)
        : board_(std::move(board)), reader_(protocol::kCommandLineBytesMax) {}

    // Reader thread. False after QUIT: read no more.
    bool take(std::string_view bytes);
    // Reader thread. False while enough waits already: the pipe holds the rest back.
    bool has_room();
    // Ends the running request and all that wait. Any thread.
    void close();
    // The machine is short of memory: ends a wait for the next line. Any thread.
    void alarm();

    // Main loop. The next line; none at once when nothing is there, or after `wait` (absent: for
    // ever), or when the inbox is closed and empty; a wait also at an alarm.
    std::optional<ReceivedLine> next();
    std::optional<ReceivedLine> wait_next(std::optional<std::chrono::milliseconds> wait);
    bool closed_and_empty();
    // True once after alarm().
    bool take_alarm();

  private:
    void take_line(const protocol::RawLine& line);
    std::optional<ReceivedLine> pop();  // holds the lock

    std::shared_ptr<StopBoard> board_;
    protocol::LineReader reader_;  // of the reader thread alone
    std::mutex mutex_;
    std::condition_variable arrived_;
    std::deque<ReceivedLine> lines_;
    std::size_t waiting_ids_ = 0;  // token ids in lines_: nearly all of their memory
    bool closed_ = false;
    bool alarmed_ = false;
};

}  // namespace strata
