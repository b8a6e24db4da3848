// See serve/monitor/prometheus.hpp.
#include "serve/monitor/prometheus.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace strata::serve {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

std::string number(double value) {
    std::array<char, 32> text{};  // the shortest form of a double has at most 24 characters
    const auto end = std::to_chars(text.data(), text.data() + text.size(), value).ptr;
    return {text.data(), end};
}

std::string escaped(std::string_view text) {
    std::string out;
    for (const char c : text) {
        if (c == '\n') {
            out += "\\n";
            continue;
        }
        if (c == '\\' || c == '"') out += '\\';
        out += c;
    }
    return out;
}

std::string label(std::string_view name, std::string_view value) {
    return std::string(name) + "=\"" + escaped(value) + "\"";
}

// Writes families; `labels` are further ones, as `name="value"`.
class Page {
  public:
    explicit Page(std::string_view model_name)
        : model_("model_name=\"" + escaped(model_name) + "\"") {}

    void family(std::string_view name, std::string_view type, std::string_view meaning) {
        name_ = name;
        text_ += "# HELP " + name_ + " " + std::string(meaning) + "\n";
        text_ += "# TYPE " + name_ + " " + std::string(type) + "\n";
    }
    void value(double value, std::string_view labels = {}) { line("", labels, number(value)); }
    template <class Integer>
    void count(Integer value, std::string_view labels = {}) {
        line("", labels, std::to_string(value));
    }
    void histogram(const Histogram& histogram, std::string_view labels = {}) {
        const std::string head = labels.empty() ? "" : std::string(labels) + ",";
        for (std::size_t i = 0; i < histogram.bounds().size(); ++i) {
            line("_bucket", head + "le=\"" + number(histogram.bounds()[i]) + "\"",
                 std::to_string(histogram.at_most(i)));
        }
        line("_bucket", head + "le=\"+Inf\"", std::to_string(histogram.count()));
        line("_sum", labels, number(histogram.sum()));
        line("_count", labels, std::to_string(histogram.count()));
    }
    std::string take() { return std::move(text_); }

  private:
    void line(std::string_view suffix, std::string_view labels, const std::string& value) {
        text_ += name_;
        text_ += suffix;
        text_ += "{" + model_;
        if (!labels.empty()) text_ += ",";
        text_ += labels;
        text_ += "} " + value + "\n";
    }

    std::string model_;
    std::string name_;
    std::string text_;
};

void counter(Page& page, std::string_view name, std::string_view meaning, std::uint64_t value) {
    page.family(name, "counter", meaning);
    page.count(value);
}

void histogram(Page& page, std::string_view name, std::string_view meaning,
               const Histogram& values) {
    page.family(name, "histogram", meaning);
    page.histogram(values);
}

void gauge(Page& page, std::string_view name, std::string_view meaning,
           const std::optional<double>& value) {
    if (!value) return;
    page.family(name, "gauge", meaning);
    page.value(*value);
}

std::uint64_t positive(std::int64_t value) {
    return value > 0 ? static_cast<std::uint64_t>(value) : 0;
}

std::optional<double> context_fill(const MetricsInput& input, const CachePresent& present) {
    const EngineView& engine = input.engine;
    if (!engine.info || engine.info->context_tokens.value_or(0) <= 0) return std::nullopt;
    const double context = static_cast<double>(*engine.info->context_tokens);
    const std::int64_t tokens = context_tokens(engine, present).value_or(0);
    return std::min(static_cast<double>(tokens) / context, 1.0);
}

void write_now(Page& page, const MetricsInput& input, const CachePresent& present) {
    gauge(page, "vllm:num_requests_running", "Requests that hold the engine.",
          input.engine.busy ? 1.0 : 0.0);
    gauge(page, "vllm:num_requests_waiting", "Requests in the queue.",
          static_cast<double>(input.engine.queued));
    gauge(page, "vllm:kv_cache_usage_perc", "Part of the context that is in use, from 0 to 1.",
          context_fill(input, present));
    if (input.hardware.ram_available_bytes) {
        gauge(page, "strata:host_available_bytes", "Memory that programs can still have.",
              static_cast<double>(*input.hardware.ram_available_bytes));
    }
}

void write_counters(Page& page, const Monitor& monitor) {
    const HistoryTotals& totals = monitor.history().totals();
    const RequestCounts& counts = monitor.counts();
    counter(page, "vllm:prompt_tokens_total", "Prompt tokens taken in: read or reused.",
            positive(totals.prompt_tokens));
    counter(page, "vllm:generation_tokens_total", "Tokens written.",
            positive(totals.output_tokens));
    page.family("vllm:request_success_total", "counter", "Finished requests by how they ended.");
    constexpr std::array kReasons = {"stop", "length", "abort", "error"};  // as protocol::Finish
    for (std::size_t i = 0; i < kReasons.size(); ++i) {
        page.count(counts.finished[i], label("finished_reason", kReasons[i]));
    }
    page.family("strata:requests_refused_total", "counter",
                "Requests that were refused and never held the engine, by the type of the error.");
    for (const char* type : {"invalid_request_error", "rate_limit_error", "unavailable_error"}) {
        if (!counts.refused.contains(type)) page.count(0, label("type", type));
    }
    for (const auto& [type, count] : counts.refused) page.count(count, label("type", type));
    counter(page, "vllm:prefix_cache_queries_total", "Prompt tokens that could have been reused.",
            positive(totals.prompt_tokens));
    counter(page, "vllm:prefix_cache_hits_total", "Prompt tokens that were reused.",
            positive(totals.reused_tokens));
    counter(page, "vllm:num_preemptions_total", "Requests that lost the engine to another: none.",
            0);
    counter(page, "vllm:spec_decode_num_draft_tokens_total", "Draft tokens offered.",
            positive(counts.drafts_offered));
    counter(page, "vllm:spec_decode_num_accepted_tokens_total", "Draft tokens accepted.",
            positive(counts.drafts_accepted));
}

void write_histograms(Page& page, const RequestCounts& counts) {
    histogram(page, "vllm:time_to_first_token_seconds", "From arrival to the first token.",
              counts.ttft_s);
    histogram(page, "vllm:inter_token_latency_seconds",
              "Between two tokens of an answer, on the average of each answer.", counts.token_s);
    histogram(page, "vllm:e2e_request_latency_seconds", "From arrival to the end.",
              counts.request_s);
    histogram(page, "vllm:request_queue_time_seconds", "From arrival to holding the engine.",
              counts.queue_s);
    histogram(page, "vllm:request_prefill_time_seconds", "Reading the prompt.", counts.prefill_s);
    histogram(page, "vllm:request_decode_time_seconds", "Writing the answer.", counts.decode_s);
    histogram(page, "vllm:request_prompt_tokens", "Prompt tokens of a request.",
              counts.prompt_tokens);
    histogram(page, "vllm:request_generation_tokens", "Tokens written for a request.",
              counts.output_tokens);
    page.family("strata:ttft_seconds", "histogram",
                "From arrival to the first token, by what the cache was for the request.");
    for (std::size_t i = 0; i <= kCacheGroups; ++i) {
        const bool known = i < kCacheGroups;
        const std::string_view group = known ? word(static_cast<CacheGroup>(i)) : kUnknownGroup;
        page.histogram(counts.ttft_by_group_s[i], label("cache", group));
    }
}

void write_cache_counts(Page& page, const Monitor& monitor) {
    const HistoryTotals& totals = monitor.history().totals();
    const CacheCounts& counts = monitor.watch().counts();
    page.family("strata:conversation_switches_total", "counter",
                "Requests that changed conversation: a hit came back from a parked one.");
    page.count(totals.hits, "result=\"hit\"");
    page.count(totals.switches - totals.hits, "result=\"miss\"");
    counter(page, "strata:conversation_parks_total", "Conversations parked.", counts.parks);
    counter(page, "strata:conversation_restores_total", "Conversations restored or borrowed.",
            counts.restores);
    page.family("strata:conversation_evictions_total", "counter",
                "Parked conversations lost to the budget or the number of slots.");
    page.count(counts.evicted_budget, "reason=\"budget\"");
    page.count(counts.evicted_slots, "reason=\"slots\"");
    counter(page, "strata:conversation_released_total",
            "Parked conversations given back under memory pressure.", counts.released);
    counter(page, "strata:conversation_superseded_total", "Older copies dropped.",
            counts.superseded);
    counter(page, "strata:conversation_lost_total", "Conversations not parked at an exchange.",
            counts.lost);
    counter(page, "strata:conversation_skips_total",
            "Conversations not parked for want of room, places or memory, lost ones included.",
            counts.skipped);
    counter(page, "strata:pressure_events_total", "Checks that found too little memory.",
            counts.pressure_events);
    histogram(page, "strata:park_seconds", "Parking a conversation.", counts.park_s);
    histogram(page, "strata:restore_seconds", "Restoring a conversation.", counts.restore_s);
}

void write_cache_present(Page& page, const MetricsInput& input, const CachePresent& present) {
    if (present.parked) {
        gauge(page, "strata:conversation_parked", "Parked conversations.",
              static_cast<double>(*present.parked));
    }
    if (const auto parked_bytes = present.parked_bytes()) {
        page.family("strata:conversation_bytes", "gauge",
                    "Host memory of parked conversations and kept K/V of the active one.");
        page.count(*parked_bytes, "kind=\"parked\"");
        page.count(*present.retained, "kind=\"retained\"");
    }
    const protocol::InfoLine info = input.engine.info.value_or(protocol::InfoLine{});
    if (info.conversation_cache_slots) {
        gauge(page, "strata:conversation_slots", "Most parked conversations.",
              static_cast<double>(*info.conversation_cache_slots));
    }
    if (info.conversation_cache_mib) {
        gauge(page, "strata:conversation_budget_bytes", "Most memory of the conversation cache.",
              static_cast<double>(*info.conversation_cache_mib) * static_cast<double>(kMiB));
    }
    gauge(page, "strata:host_floor_bytes", "Free memory that the cache leaves.",
          static_cast<double>(floor_bytes(input.engine, input.cache)));
}

}  // namespace

std::string prometheus_text(const MetricsInput& input, const Monitor& monitor,
                            const std::string& model_name) {
    Page page(model_name);
    const CachePresent present = cache_present(input.engine, monitor.watch());
    write_now(page, input, present);
    write_counters(page, monitor);
    write_histograms(page, monitor.counts());
    // A cache that is off has no figures: a row of zeros would look like one that does nothing.
    if (cache_enabled(input.engine, input.cache)) {
        write_cache_counts(page, monitor);
        write_cache_present(page, input, present);
    }
    return page.take();
}

}  // namespace strata::serve
