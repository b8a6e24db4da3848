// A request's row.
#include <string_view>

#include "serve/monitor/metrics_json_parts.hpp"
#include "serve/monitor/request_counts.hpp"

namespace strata::serve {
namespace {

namespace json = boost::json;

template <class Enum>
json::value word_or_null(const std::optional<Enum>& value) {
    if (!value) return nullptr;
    const std::string_view text = word(*value);
    return json::value(json::string_view(text.data(), text.size()));
}

json::value words_or_null(const std::string& words) {
    return words.empty() ? json::value(nullptr) : json::value(words);
}

// What became of the conversation cache by this request.
void add_cache_fields(json::object& out, const protocol::DoneLine& done) {
    out["switched"] = nullptr;
    out["restored"] = nullptr;
    out["parked"] = nullptr;
    out["bytes"] = nullptr;
    out["evictions"] = nullptr;
    if (done.cache_fields) {
        out["switched"] = done.cache_fields->switched;
        out["restored"] = done.cache_fields->restored;
        out["parked"] = done.cache_fields->parked;
        out["bytes"] = done.cache_fields->bytes;
        out["evictions"] = done.cache_fields->evictions;
    }
    out["retained_bytes"] = or_null(done.retained);
    out["conv"] = or_null(done.conv);
    out["parked_now"] = or_null(done.parked_now);
    out["park_skip"] = word_or_null(done.park_skip);
}

}  // namespace

json::object row_json(const HistoryRow& row) {
    json::object out;
    out["time"] = row.time_s;
    out["id"] = row.request_id;
    const bool held = row.epoch > 0;
    out["epoch"] = held ? json::value(row.epoch) : json::value(nullptr);
    out["ticket"] = held ? json::value(row.ticket) : json::value(nullptr);
    out["began"] = row.began_s;
    out["admitted"] = or_null(row.admitted_s);
    out["duration_s"] = row.duration_s;
    out["queue_ms"] = or_null(row.queue_ms);
    out["ttft_ms"] = or_null(row.ttft_ms);
    // What the client saw and the log says; a met stop string ends the engine's work by a cancel.
    const std::string_view finish = protocol::word(row.finish);
    out["finish"] = json::string_view(finish.data(), finish.size());
    out["first_words"] = words_or_null(row.first_words);
    const TakenIn taken = taken_in(row);
    out["prompt_length"] = or_null(row.prompt_length);
    out["prompt_tokens"] = taken.prompt_tokens;
    out["prompt_read"] = taken.prompt_tokens - taken.reused;
    out["reused"] = taken.reused;
    if (!row.done) {
        out["failure"] = row.failure;
        out["output_tokens"] = row.output_tokens;
        return out;
    }
    const protocol::DoneLine& done = *row.done;
    if (row.finish == protocol::Finish::error) out["failure"] = row.failure;
    out["output_tokens"] = done.generated;
    out["prompt_ms"] = done.prompt_ms;
    out["decode_ms"] = row.unended ? json::value(nullptr) : json::value(done.decode_ms);
    out["park_ms"] = or_null(done.park_ms);
    out["restore_ms"] = or_null(done.restore_ms);
    out["passes"] = row.passes;
    out["source"] = word_or_null(done.source);
    out["group"] = word_or_null(cache_group(done));
    out["miss"] = word_or_null(done.miss);
    out["common"] = or_null(done.common);
    add_cache_fields(out, done);
    return out;
}

}  // namespace strata::serve
