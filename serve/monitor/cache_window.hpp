// What the conversation cache did for the newest requests: sums over the newest N rows whose DONE
// carries fields 15-19. Pure; rows without them are passed over and take no place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "serve/monitor/request_history.hpp"

namespace strata::serve {

inline constexpr std::size_t kCacheWindowRows = 20;                           // the default N
inline constexpr std::size_t kCacheWindowRowsMax = RequestHistory::kRowsMax;  // all that is kept

struct CacheWindow {
    std::size_t rows = 0;  // that were used, at most N
    std::int64_t prompt_tokens = 0;
    std::int64_t reused_tokens = 0;
    std::size_t switches = 0;
    std::size_t hits = 0;
    friend bool operator==(const CacheWindow&, const CacheWindow&) = default;
};

CacheWindow cache_window(const std::deque<HistoryRow>& newest_first, std::size_t rows_max);

}  // namespace strata::serve
