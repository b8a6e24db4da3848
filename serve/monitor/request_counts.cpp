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

void RequestCounts::add(const HistoryRow& row) {
    ++finished.at(static_cast<std::size_t>(row.finish));
    request_s.add(row.duration_s);
    if (row.admitted_s) queue_s.add(row.queue_ms / kMsPerSecond);
    if (row.ttft_ms) ttft_s.add(*row.ttft_ms / kMsPerSecond);
    if (!row.done) return;
    const protocol::DoneLine& done = *row.done;
    drafts_offered += done.drafts_offered;
    drafts_accepted += done.drafts_accepted;
    const std::optional<CacheGroup> group = cache_group(done);
    if (row.ttft_ms && group) {
        ttft_by_group_s.at(static_cast<std::size_t>(*group)).add(*row.ttft_ms / kMsPerSecond);
    }
    // The first token is the prompt's.
    if (done.generated > 1) {
        const double steps = static_cast<double>(done.generated - 1);
        token_s.add(done.decode_ms / kMsPerSecond / steps,
                    static_cast<std::uint64_t>(done.generated - 1));
    }
    prefill_s.add(done.prompt_ms / kMsPerSecond);
    decode_s.add(done.decode_ms / kMsPerSecond);
    prompt_tokens.add(static_cast<double>(done.prompt_tokens));
    output_tokens.add(static_cast<double>(done.generated));
}

}  // namespace strata::serve
