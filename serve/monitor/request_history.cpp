#include "serve/monitor/request_history.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace strata::serve {

namespace {

bool never_held_the_engine(const HistoryRow& row) {
    return row.epoch == 0 && !row.done;
}

}  // namespace

TakenIn taken_in(const HistoryRow& row) {
    if (!row.done) return {row.prompt_tokens, row.reused};
    return {row.done->reused + row.done->prompt_read, row.done->reused};
}

void RequestHistory::count(const HistoryRow& row) {
    if (!row.refusal.empty()) {
        ++totals_.refused;
        return;
    }
    ++totals_.requests;
    const TakenIn taken = taken_in(row);
    totals_.prompt_tokens += taken.prompt_tokens;
    totals_.reused_tokens += taken.reused;
    totals_.output_tokens += row.done ? row.done->generated : row.output_tokens;
    if (!row.done) return;
    totals_.prompt_ms += row.done->prompt_ms;
    if (!row.unended) totals_.decode_ms += row.done->decode_ms;
    if (row.done->cache_fields && row.done->cache_fields->switched) {
        ++totals_.switches;
        if (row.done->cache_fields->restored) ++totals_.hits;
    }
}

void RequestHistory::add(HistoryRow row) {
    count(row);
    if (never_held_the_engine(row)) ++refused_rows_;
    rows_.push_front(std::move(row));
    if (refused_rows_ > kRefusedRowsMax) drop_oldest_refused();
    if (rows_.size() <= kRowsMax) return;
    if (never_held_the_engine(rows_.back())) --refused_rows_;
    rows_.pop_back();
}

void RequestHistory::drop_oldest_refused() {
    const auto oldest = std::find_if(rows_.rbegin(), rows_.rend(), never_held_the_engine);
    rows_.erase(std::next(oldest).base());
    --refused_rows_;
}

}  // namespace strata::serve
