// See serve/monitor/request_counts.hpp.
#include "serve/monitor/request_counts.hpp"

namespace strata::serve {

namespace {

constexpr double kMsPerSecond = 1000;

}  // namespace

std::string_view word(CacheGroup group) {
    switch (group) {
        case CacheGroup::cold:
            return "cold";
        case CacheGroup::root:
            return "root";
        case CacheGroup::warm:
            return "warm";
        case CacheGroup::restored:
            return "restored";
    }
    return "cold";
}

std::optional<CacheGroup> cache_group(const protocol::DoneLine& done) {
    if (done.reused == 0) return CacheGroup::cold;
    if (!done.cache_fields) return std::nullopt;
    if (!done.cache_fields->switched) return CacheGroup::warm;
    return done.cache_fields->restored ? CacheGroup::restored : CacheGroup::root;
}

void RequestCounts::add_first_token(const HistoryRow& row) {
    if (!row.ttft_ms) return;
    const std::optional<CacheGroup> group = row.done ? cache_group(*row.done) : std::nullopt;
    const double seconds = *row.ttft_ms / kMsPerSecond;
    ttft_s.add(seconds);
    ttft_by_group_s.at(group ? static_cast<std::size_t>(*group) : kCacheGroups).add(seconds);
}

void RequestCounts::add(const HistoryRow& row) {
    if (!row.refusal.empty()) {
        ++refused[row.refusal];
        return;
    }
    ++finished.at(static_cast<std::size_t>(row.finish));
    request_s.add(row.duration_s);
    if (row.admitted_s && row.queue_ms) queue_s.add(*row.queue_ms / kMsPerSecond);
    add_first_token(row);
    const bool held_the_engine = row.done || row.epoch > 0;
    if (!held_the_engine) return;
    prompt_tokens.add(static_cast<double>(taken_in(row).prompt_tokens));
    output_tokens.add(static_cast<double>(row.done ? row.done->generated : row.output_tokens));
    if (!row.done) return;
    const protocol::DoneLine& done = *row.done;
    drafts_offered += done.drafts_offered;
    drafts_accepted += done.drafts_accepted;
    // The first token is the prompt's.
    if (done.generated > 1 && !row.unended) {
        const double steps = static_cast<double>(done.generated - 1);
        token_s.add(done.decode_ms / kMsPerSecond / steps,
                    static_cast<std::uint64_t>(done.generated - 1));
    }
    prefill_s.add(done.prompt_ms / kMsPerSecond);
    if (!row.unended) decode_s.add(done.decode_ms / kMsPerSecond);
}

}  // namespace strata::serve
