// See engine/outcome_to_done.hpp.
#include "engine/outcome_to_done.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "engine/cache_lines.hpp"
#include "engine/units.hpp"

namespace strata {

namespace {

protocol::Finish finish_of(FinishReason reason) {
    switch (reason) {
        case FinishReason::stop:
            return protocol::Finish::stop;
        case FinishReason::length:
            return protocol::Finish::length;
        case FinishReason::cancel:
            return protocol::Finish::cancel;
        case FinishReason::error:
            return protocol::Finish::error;
    }
    return protocol::Finish::error;
}

protocol::PromptSource source_of(ResumeSource source) {
    switch (source) {
        case ResumeSource::cold:
            return protocol::PromptSource::cold;
        case ResumeSource::live:
            return protocol::PromptSource::live;
        case ResumeSource::turn:
            return protocol::PromptSource::turn;
        case ResumeSource::root:
            return protocol::PromptSource::root;
        case ResumeSource::interval:
            return protocol::PromptSource::interval;
        case ResumeSource::tail:
            return protocol::PromptSource::tail;
        case ResumeSource::pin:
            return protocol::PromptSource::pin;
        case ResumeSource::parked:
            return protocol::PromptSource::parked;
        case ResumeSource::parked_checkpoint:
            return protocol::PromptSource::parked_checkpoint;
        case ResumeSource::borrowed:
            return protocol::PromptSource::borrowed;
        case ResumeSource::device:
            return protocol::PromptSource::device;
    }
    return protocol::PromptSource::cold;
}

protocol::MissReason miss_of(MissReason reason) {
    switch (reason) {
        case MissReason::none:
            return protocol::MissReason::none;
        case MissReason::fresh:
            return protocol::MissReason::unseen;
        case MissReason::steering:
            return protocol::MissReason::steering;
        case MissReason::level:
            return protocol::MissReason::level;
        case MissReason::rewritten:
            return protocol::MissReason::rewritten;
        case MissReason::evicted:
            return protocol::MissReason::evicted;
        case MissReason::released:
            return protocol::MissReason::released;
        case MissReason::budget:
            return protocol::MissReason::budget;
        case MissReason::floor:
            return protocol::MissReason::floor;
        case MissReason::invalid:
            return protocol::MissReason::invalid;
        case MissReason::identity:
            return protocol::MissReason::identity;
    }
    return protocol::MissReason::none;
}

protocol::ErrCode code_of(RefusalCode code) {
    switch (code) {
        case RefusalCode::bad_field:
            return protocol::ErrCode::bad_field;
        case RefusalCode::bad_token:
            return protocol::ErrCode::bad_token;
        case RefusalCode::too_long:
            return protocol::ErrCode::too_long;
        case RefusalCode::out_of_memory:
            return protocol::ErrCode::out_of_memory;
        case RefusalCode::restore_failed:
            return protocol::ErrCode::restore_failed;
        case RefusalCode::device_lost:
            return protocol::ErrCode::device_lost;
    }
    return protocol::ErrCode::internal;
}

// Fields 15-19 and the cache's names.
void add_cache(protocol::DoneLine& line, const PromptPlan& plan, const CacheFigures& cache) {
    const CacheCounters& counters = cache.counters;
    line.cache_fields = protocol::CacheFields{plan.switched, plan.restored, cache.parked,
                                              line_number(cache.bytes), counters.evictions()};
    if (!cache.enabled) return;
    line.park_ms = cache.park_ms;
    line.restore_ms = cache.restore_ms;
    line.parked_now = cache.parked_now;
    if (cache.park_skip) line.park_skip = park_skip_of(*cache.park_skip);
    line.retained = line_number(cache.retained_bytes);
    line.superseded = counters.superseded;
    line.released = counters.released;
    line.lost = counters.lost;
    line.evicted_budget = counters.evicted_budget;
    line.evicted_slots = counters.evicted_slots;
    if (cache.available_bytes) line.available_mib = whole_mib(*cache.available_bytes);
}

}  // namespace

protocol::DoneLine done_line(const GenerateRequest& request, const Outcome& outcome) {
    protocol::DoneLine line;
    line.generated = outcome.generated;
    line.prompt_tokens = outcome.prompt_tokens;
    line.prompt_ms = outcome.prompt_ms;
    line.decode_ms = outcome.decode_ms;
    line.finish = finish_of(outcome.finish);
    line.reused = outcome.plan.reused;
    line.prompt_read = outcome.prompt_read;
    line.id = request.id;
    line.label = request.label;
    line.queue_ms = outcome.queue_ms;
    if (!outcome.planned) return line;
    add_cache(line, outcome.plan, outcome.cache);
    line.conv = outcome.conversation;
    line.stop_id = outcome.stop_id;
    line.source = source_of(outcome.plan.source);
    line.miss = miss_of(outcome.plan.miss);
    line.common = outcome.plan.common;
    line.checkpoints = outcome.checkpoints;
    line.logits_sha256 = outcome.logits_sha256;
    line.state_sha256 = outcome.state_sha256;
    return line;
}

protocol::ErrLine err_line(const GenerateRequest& request, const RequestRefusal& refusal) {
    const bool fatal =
        refusal.code == RefusalCode::restore_failed || refusal.code == RefusalCode::device_lost;
    return {code_of(refusal.code), request.id, fatal, refusal.text};
}

protocol::ResumeLine resume_line(std::uint64_t id, const PromptPlan& plan,
                                 std::uint64_t conversation, const protocol::HeldFigures& held) {
    return {plan.reused, id, source_of(plan.source), conversation, held};
}

protocol::TokenLine token_line(std::uint64_t id, TokenId token,
                               const std::optional<TokenReport>& report) {
    protocol::TokenLine line;
    line.token = token;
    line.id = id;
    if (!report) return line;
    line.lp = report->logprob;
    for (const TokenLogprob& each : report->top) {
        // A masked token has probability 0: the line has no word for its logarithm.
        if (std::isfinite(each.logprob)) line.top.push_back({each.token, each.logprob});
    }
    return line;
}

protocol::InfoLine info_line(Engine& engine, std::string_view version) {
    const Geometry& geometry = engine.runner().geometry();
    const EngineLimits& limits = engine.limits();
    const DeviceFacts facts = engine.runner().device().facts();
    protocol::InfoLine line;
    line.protocol = protocol::kProtocolVersion;
    line.context_tokens = limits.context_tokens;
    line.vocab = geometry.vocabulary;
    line.kv = kv_type_name(geometry.kv_type);
    line.page_tokens = kPageTokens;
    line.spec = "off";
    line.batch = 1;
    if (facts.free_bytes > 0) line.vram_free_mib = whole_mib(facts.free_bytes);
    line.device = facts.name;
    line.weights_mib = whole_mib(geometry.weights_bytes);
    line.arch = geometry.architecture;
    line.quant = geometry.quantisation;
    line.steer = "";
    line.prompt_cache = limits.checkpoints.kept;
    line.prompt_cache_every = limits.checkpoints.every_tokens;
    line.prompt_cache_root = limits.checkpoints.root_min_tokens;
    const CacheLimits& cache = limits.cache.cache;
    line.conversation_cache_mib = cache.enabled() ? whole_mib(cache.budget_bytes) : 0;
    line.conversation_cache_slots = cache.slots;
    line.conversation_cache_min_free_mib = whole_mib(cache.floor_bytes);
    line.memory_limit_mib = limits.memory_limit_mib;
    const bool pooled = cache.enabled() && engine.runner().device().copies_aside();
    line.device_pool_mib =
        pooled
            ? whole_mib(std::min<std::uint64_t>(limits.cache.device_pool_bytes, facts.free_bytes))
            : 0;
    line.kv_bytes_per_token = static_cast<std::int64_t>(geometry.kv_bytes_per_token());
    line.state_bytes = static_cast<std::int64_t>(geometry.state_bytes());
    line.model_id = engine.runner().vocabulary().model_id;
    line.engine = std::string(version);
    return line;
}

std::string report_of(const Outcome& outcome) {
    const PromptPlan& plan = outcome.plan;
    std::array<char, 64> time{};
    (void)std::snprintf(time.data(), time.size(), "%.0f ms", outcome.prompt_ms);
    std::string text = "prompt " + std::to_string(outcome.prompt_tokens) +
                       " tokens = " + std::to_string(plan.reused) + " reused + " +
                       std::to_string(outcome.prompt_read) + " read (source " +
                       std::string(protocol::word(source_of(plan.source))) + ") in " + time.data();
    if (plan.miss != MissReason::none) {
        text += "; miss: " + std::string(protocol::word(miss_of(plan.miss))) +
                ", first differing position " + std::to_string(plan.common);
    } else if (plan.switched && !plan.restored) {
        text += "; nothing differs, but no checkpoint lies before its end";
    }
    if (!outcome.fault.empty()) text += "; failed: " + outcome.fault;
    return text;
}

}  // namespace strata
