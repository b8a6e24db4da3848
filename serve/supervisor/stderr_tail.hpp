// The last lines of an engine's human log: a ring that drops the oldest and counts what it dropped.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

namespace strata::serve {

// Enough for the story of a crash, little enough to be shown on a page.
inline constexpr std::size_t kStderrTailLines = 50;

class StderrTail {
  public:
    void add(std::string line) {
        lines_.push_back(std::move(line));
        if (lines_.size() <= kStderrTailLines) return;
        lines_.pop_front();
        ++dropped_;
    }
    void clear() {
        lines_.clear();
        dropped_ = 0;
    }
    std::vector<std::string> lines() const { return {lines_.begin(), lines_.end()}; }
    std::uint64_t dropped() const { return dropped_; }

  private:
    std::deque<std::string> lines_;
    std::uint64_t dropped_ = 0;
};

}  // namespace strata::serve
