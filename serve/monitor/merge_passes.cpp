// See serve/monitor/merge_passes.hpp.
#include "serve/monitor/merge_passes.hpp"

namespace strata::serve {

namespace {

std::optional<double> sum(const std::optional<double>& a, const std::optional<double>& b) {
    if (!a) return b;
    return b ? *a + *b : *a;
}

// The cache as a pass left it.
void take_present(protocol::DoneLine& row, const protocol::DoneLine& pass) {
    row.cache_fields = pass.cache_fields;
    row.conv = pass.conv;
    row.retained = pass.retained;
    row.superseded = pass.superseded;
    row.released = pass.released;
    row.lost = pass.lost;
    row.evicted_budget = pass.evicted_budget;
    row.evicted_slots = pass.evicted_slots;
    row.checkpoints = pass.checkpoints;
    row.available_mib = pass.available_mib;
}

}  // namespace

protocol::DoneLine merge_passes(const protocol::DoneLine& first, const protocol::DoneLine& last) {
    protocol::DoneLine row = last;
    row.prompt_tokens = first.prompt_tokens;
    row.prompt_ms = first.prompt_ms;
    row.reused = first.reused;
    row.prompt_read = first.prompt_read;
    row.source = first.source;
    row.miss = first.miss;
    row.common = first.common;
    row.queue_ms = first.queue_ms;
    row.parked_now = first.parked_now;
    row.park_skip = first.park_skip;
    row.logits_sha256 = first.logits_sha256;

    row.generated += first.generated;
    row.decode_ms += first.decode_ms;
    row.park_ms = sum(first.park_ms, last.park_ms);
    row.restore_ms = sum(first.restore_ms, last.restore_ms);
    row.drafts_accepted += first.drafts_accepted;
    row.drafts_offered += first.drafts_offered;
    row.expert_hits += first.expert_hits;
    row.expert_lookups += first.expert_lookups;
    row.experts_from_ram += first.experts_from_ram;
    row.experts_from_file += first.experts_from_file;
    row.file_mb += first.file_mb;

    if (first.cache_fields && last.cache_fields) {
        row.cache_fields->switched = first.cache_fields->switched;
        row.cache_fields->restored = first.cache_fields->restored;
    } else if (first.cache_fields) {
        take_present(row, first);
    } else {
        row.cache_fields.reset();
    }
    return row;
}

}  // namespace strata::serve
