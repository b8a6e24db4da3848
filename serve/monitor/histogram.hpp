// A histogram of a fixed set of upper bounds, as Prometheus counts: never falls, values above the
// last bound count in it all the same.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace strata::serve {

// Seconds. Answers of a local model: a cached turn in 10 ms, a long prompt in minutes.
inline constexpr std::array kRequestSecondsBounds = std::to_array<double>(
    {0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 80, 160, 320, 640});
// Seconds between two tokens: from 1,000 tokens a second to one in five seconds.
inline constexpr std::array kTokenSecondsBounds =
    std::to_array<double>({0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 5});
// Seconds to copy a conversation: kilobytes to tens of gigabytes.
inline constexpr std::array kMoveSecondsBounds =
    std::to_array<double>({0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10});
// Tokens of a prompt or an answer.
inline constexpr std::array kTokenCountBounds = std::to_array<double>(
    {1, 4, 16, 64, 256, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144});

class Histogram {
  public:
    // `bounds` rise and outlive the histogram.
    explicit Histogram(std::span<const double> bounds) : bounds_(bounds), counts_(bounds.size()) {}

    // `times` values of the same size; a negative one counts as 0.
    void add(double value, std::uint64_t times = 1);

    std::span<const double> bounds() const { return bounds_; }
    // Values of at most bounds()[i], those below included.
    std::uint64_t at_most(std::size_t i) const;
    std::uint64_t count() const { return count_; }
    double sum() const { return sum_; }

  private:
    std::span<const double> bounds_;
    std::vector<std::uint64_t> counts_;  // of each bound alone
    std::uint64_t count_ = 0;
    double sum_ = 0;
};

}  // namespace strata::serve
