// See serve/monitor/cache_window.hpp.
#include "serve/monitor/cache_window.hpp"

namespace strata::serve {

CacheWindow cache_window(const std::deque<HistoryRow>& newest_first, std::size_t rows_max) {
    CacheWindow window;
    for (const HistoryRow& row : newest_first) {
        if (window.rows == rows_max) break;
        if (!row.done || !row.done->cache_fields) continue;
        ++window.rows;
        const TakenIn taken = taken_in(row);
        window.prompt_tokens += taken.prompt_tokens;
        window.reused_tokens += taken.reused;
        if (!row.done->cache_fields->switched) continue;
        ++window.switches;
        if (row.done->cache_fields->restored) ++window.hits;
    }
    return window;
}

}  // namespace strata::serve
