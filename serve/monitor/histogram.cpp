// See serve/monitor/histogram.hpp.
#include "serve/monitor/histogram.hpp"

#include <algorithm>
#include <numeric>

namespace strata::serve {

void Histogram::add(double value, std::uint64_t times) {
    value = std::max(value, 0.0);
    count_ += times;
    sum_ += value * static_cast<double>(times);
    const auto bound = std::lower_bound(bounds_.begin(), bounds_.end(), value);
    if (bound == bounds_.end()) return;
    counts_[static_cast<std::size_t>(bound - bounds_.begin())] += times;
}

std::uint64_t Histogram::at_most(std::size_t i) const {
    return std::accumulate(counts_.begin(), counts_.begin() + static_cast<std::ptrdiff_t>(i) + 1,
                           std::uint64_t{0});
}

}  // namespace strata::serve
