// Tokens read and written in each of the last 300 seconds, for the page's sparklines. Time comes in
// as a value: seconds of a clock that only goes forward.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace strata::serve {

struct SpeedSample {
    std::int64_t second = 0;          // of the caller's clock
    std::int64_t read_tokens = 0;     // prompt tokens computed in this second
    std::int64_t written_tokens = 0;  // tokens generated in this second
};

class SpeedMeter {
  public:
    static constexpr std::size_t kSeconds = 300;

    void read(double now_s, std::int64_t tokens) { at(now_s).read_tokens += tokens; }
    void wrote(double now_s, std::int64_t tokens) { at(now_s).written_tokens += tokens; }
    // The last kSeconds whole or running seconds, oldest first; seconds without work are there as
    // zeros.
    std::vector<SpeedSample> samples(double now_s) const;

  private:
    SpeedSample& at(double now_s);
    std::array<SpeedSample, kSeconds> ring_{};  // place = second % kSeconds; another second = stale
};

// Seconds until `tokens_left` of a prompt are read, at the rate of the last kRateSeconds or of the
// `elapsed_s` that the request runs, if that is shorter. Absent while nothing was read.
inline constexpr std::size_t kRateSeconds = 10;  // long enough for a slow chunk, short for a change
std::optional<std::int64_t> reading_left_s(const std::vector<SpeedSample>& samples,
                                           double elapsed_s, std::int64_t tokens_left);

}  // namespace strata::serve
