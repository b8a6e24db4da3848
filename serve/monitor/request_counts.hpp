// Counts and histograms of finished requests since the server's start, as dashboards want them.
// Owns the groups of requests by where their prompt came from. A refused request is counted apart:
// its milliseconds would make every latency look better than it is.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "serve/monitor/histogram.hpp"
#include "serve/monitor/request_history.hpp"

namespace strata::serve {

// What the conversation cache was for a request.
enum class CacheGroup : std::uint8_t {
    cold,      // nothing was reused
    root,      // a switch that reused another conversation's root
    warm,      // a continuation
    restored,  // a switch that came back from a parked conversation
};
inline constexpr std::size_t kCacheGroups = 4;
inline constexpr std::string_view kUnknownGroup = "unknown";  // the engine did not say
std::string_view word(CacheGroup group);
// None: the engine does not say whether the request switched.
std::optional<CacheGroup> cache_group(const protocol::DoneLine& done);

struct RequestCounts {
    std::array<std::uint64_t, 4> finished{};       // by protocol::Finish
    std::map<std::string, std::uint64_t> refused;  // by the type of the error
    std::int64_t drafts_offered = 0;
    std::int64_t drafts_accepted = 0;
    Histogram ttft_s{kRequestSecondsBounds};
    // By CacheGroup, then those of unknown group: in sum as many as ttft_s.
    std::array<Histogram, kCacheGroups + 1> ttft_by_group_s{
        Histogram{kRequestSecondsBounds}, Histogram{kRequestSecondsBounds},
        Histogram{kRequestSecondsBounds}, Histogram{kRequestSecondsBounds},
        Histogram{kRequestSecondsBounds}};
    Histogram token_s{kTokenSecondsBounds};  // between two tokens of an answer
    Histogram request_s{kRequestSecondsBounds};
    Histogram queue_s{kRequestSecondsBounds};
    Histogram prefill_s{kRequestSecondsBounds};
    Histogram decode_s{kRequestSecondsBounds};
    Histogram prompt_tokens{kTokenCountBounds};
    Histogram output_tokens{kTokenCountBounds};

    void add(const HistoryRow& row);

  private:
    void add_first_token(const HistoryRow& row);
};

}  // namespace strata::serve
