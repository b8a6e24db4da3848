#include "serve/monitor/request_history.hpp"

#include <utility>

namespace strata::serve {

void RequestHistory::add(HistoryRow row) {
    ++totals_.requests;
    if (row.done) {
        totals_.prompt_tokens += row.done->prompt_tokens;
        totals_.reused_tokens += row.done->reused;
        totals_.output_tokens += row.done->generated;
        totals_.prompt_ms += row.done->prompt_ms;
        totals_.decode_ms += row.done->decode_ms;
        if (row.done->cache_fields && row.done->cache_fields->switched) {
            ++totals_.switches;
            if (row.done->cache_fields->restored) ++totals_.hits;
        }
    } else {
        totals_.output_tokens += row.output_tokens;
    }
    rows_.push_front(std::move(row));
    if (rows_.size() > kRowsMax) rows_.pop_back();
}

}  // namespace strata::serve
