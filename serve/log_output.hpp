// The descriptor behind the log, which must never hold up the server: when its reader sleeps or its
// disk is full, lines are dropped and counted, and the first line that gets through again is
// preceded by one that says how many were lost.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>

namespace strata::serve {

class LogOutput {
  public:
    // Borrows the descriptor and leaves its flags alone: a terminal shares them with the shell.
    // `note` makes the line about dropped ones.
    LogOutput(int fd, std::function<std::string(std::uint64_t dropped)> note)
        : fd_(fd), note_(std::move(note)) {}

    // Whole lines. From one thread.
    void write(std::string_view text);

  private:
    bool put(std::string_view bytes);

    int fd_;
    std::function<std::string(std::uint64_t)> note_;
    std::uint64_t dropped_ = 0;  // not told yet
    bool cut_ = false;           // the last line has lost its end
};

}  // namespace strata::serve
