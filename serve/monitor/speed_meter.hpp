// Tokens read and written in each of the last 60 seconds, for the page's sparklines. Time comes in
// as a value: seconds of a clock that only goes forward.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace strata::serve {

struct SpeedSample {
    std::int64_t second = 0;          // of the caller's clock
    std::int64_t read_tokens = 0;     // prompt tokens computed in this second
    std::int64_t written_tokens = 0;  // tokens generated in this second
};

class SpeedMeter {
  public:
    static constexpr std::size_t kSeconds = 60;

    void read(double now_s, std::int64_t tokens) { at(now_s).read_tokens += tokens; }
    void wrote(double now_s, std::int64_t tokens) { at(now_s).written_tokens += tokens; }
    // The last kSeconds whole or running seconds, oldest first; seconds without work are there as
    // zeros.
    std::vector<SpeedSample> samples(double now_s) const;

  private:
    SpeedSample& at(double now_s);
    std::array<SpeedSample, kSeconds> ring_{};  // place = second % kSeconds; another second = stale
};

}  // namespace strata::serve
