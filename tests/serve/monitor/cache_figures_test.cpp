// Protects the figures of the conversation cache: the window and its edges, two passes as one row,
// the present of one epoch, events, counts, and the parts of RAM.
#include <string>

#include <catch2/catch.hpp>

#include "serve/monitor/cache_window.hpp"
#include "serve/monitor/merge_passes.hpp"
#include "serve/monitor/metrics_json.hpp"
#include "serve/monitor/prometheus.hpp"
#include "tests/serve/monitor/monitor_story.hpp"

namespace strata::serve::tests {
namespace {

const std::string kFirst =
    "DONE 20 1200 1450.0 300.0 length 3 5 7 1 2 4 6 1.5 1193 1 0 1 100 2 id=4 conv=1 source=root "
    "miss=new common=9 park_ms=5.0 restore_ms=2.0 queue_ms=1.0 parked_now=1 retained=10 "
    "superseded=1 released=1 lost=1 evicted_budget=1 evicted_slots=1 checkpoints=2 "
    "available_mib=500";
const std::string kLast =
    "DONE 70 1225 9.0 1100.5 stop 30 50 1220 10 20 40 60 0.5 5 0 0 3 300 4 id=5 conv=1 source=live "
    "miss=none common=1220 stop_id=7 park_ms=0.5 parked_now=0 retained=30 superseded=2 released=3 "
    "lost=4 evicted_budget=2 evicted_slots=2 checkpoints=3 available_mib=400";

HistoryRow row_of(const std::string& done) {
    HistoryRow row;
    row.done = done_of(done);
    return row;
}

RequestHistory history_of(std::initializer_list<std::string> oldest_first) {
    RequestHistory history(0);
    for (const std::string& done : oldest_first) history.add(row_of(done));
    return history;
}

std::string cached(int prompt, int reused, int switched, int restored) {
    return "DONE 5 " + std::to_string(prompt) + " 1.0 1.0 stop 0 0 " + std::to_string(reused) +
           " 0 0 0 0 0 " + std::to_string(prompt - reused) + " " + std::to_string(switched) + " " +
           std::to_string(restored) + " 1 9 0";
}

std::string plain(int prompt) {
    return "DONE 5 " + std::to_string(prompt) + " 1.0 1.0 stop 0 0 3 0 0 0 0 0 7";
}

MetricsInput ready_input(std::uint64_t epoch) {
    MetricsInput input;
    input.engine.state = EngineState::ready;
    input.engine.epoch = epoch;
    const auto info =
        protocol::parse_info_line("INFO conversation_cache_mib=512 conversation_cache_slots=4");
    input.engine.info = *info;
    return input;
}

}  // namespace

TEST_CASE("The window sums the newest rows that carry the fields") {
    RequestHistory history = history_of(
        {cached(100, 0, 1, 0), cached(200, 150, 1, 1), plain(999), cached(300, 290, 0, 0)});
    HistoryRow failed;
    failed.failure = "gone";
    history.add(failed);
    CHECK(cache_window(history.newest_first(), 20) == CacheWindow{3, 600, 440, 2, 1});
    // Rows without fields take no place: two rows are the newest and the one before the plain one.
    CHECK(cache_window(history.newest_first(), 2) == CacheWindow{2, 500, 440, 1, 1});
}

TEST_CASE("A window of one row is the newest that carries the fields") {
    const RequestHistory history =
        history_of({cached(100, 0, 1, 0), cached(200, 150, 1, 1), plain(999)});
    CHECK(cache_window(history.newest_first(), 1) == CacheWindow{1, 200, 150, 1, 1});
    CHECK(cache_window({}, 1) == CacheWindow{});
}

TEST_CASE("A window of 500 rows is all that is kept and no more") {
    RequestHistory history(0);
    for (int i = 0; i < 510; ++i) history.add(row_of(cached(10, 4, 1, i % 2)));
    CHECK(cache_window(history.newest_first(), kCacheWindowRowsMax) ==
          CacheWindow{500, 5000, 2000, 500, 250});
    CHECK(history.totals().requests == 510);
    CHECK(history.totals().switches == 510);
    CHECK(history.totals().hits == 255);
}

TEST_CASE("Restored without switched is no hit") {
    const RequestHistory history = history_of({cached(100, 90, 0, 1)});
    CHECK(cache_window(history.newest_first(), 5).hits == 0);
    CHECK(history.totals().hits == 0);
}

TEST_CASE("Two passes are one row by the rule of each field") {
    const protocol::DoneLine row = merge_passes(done_of(kFirst), done_of(kLast));
    CHECK(row.prompt_tokens == 1200);
    CHECK(row.reused == 7);
    CHECK(row.prompt_read == 1193);
    CHECK(row.prompt_ms == 1450.0);
    CHECK(row.cache_fields->switched);
    CHECK_FALSE(row.cache_fields->restored);
    CHECK(row.source == protocol::PromptSource::root);
    CHECK(row.miss == protocol::MissReason::unseen);
    CHECK(row.common == 9);
    CHECK(row.queue_ms == 1.0);
    CHECK(row.parked_now == true);

    CHECK(row.generated == 90);
    CHECK(row.decode_ms == 1400.5);
    CHECK(row.park_ms == 5.5);
    CHECK(row.restore_ms == 2.0);
    CHECK(row.drafts_accepted == 33);
    CHECK(row.drafts_offered == 55);
    CHECK(row.expert_hits == 11);
    CHECK(row.expert_lookups == 22);
    CHECK(row.experts_from_ram == 44);
    CHECK(row.experts_from_file == 66);
    CHECK(row.file_mb == 2.0);

    CHECK(row.cache_fields->parked == 3);
    CHECK(row.cache_fields->bytes == 300);
    CHECK(row.cache_fields->evictions == 4);
    CHECK(row.finish == protocol::Finish::stop);
    CHECK(row.stop_id == 7);
    CHECK(row.id == 5);
    CHECK(row.retained == 30);
    CHECK(row.superseded == 2);
    CHECK(row.released == 3);
    CHECK(row.lost == 4);
    CHECK(row.evicted_budget == 2);
    CHECK(row.evicted_slots == 2);
    CHECK(row.checkpoints == 3);
    CHECK(row.available_mib == 400);
}

TEST_CASE("A pass without the cache's fields leaves what the other one knows") {
    const protocol::DoneLine no_plan = done_of("DONE 0 1225 0.0 0.0 cancel 0 0 0 0 0 0 0 0 0 id=5");
    const protocol::DoneLine kept = merge_passes(done_of(kFirst), no_plan);
    REQUIRE(kept.cache_fields);
    CHECK(kept.cache_fields->switched);
    CHECK(kept.cache_fields->parked == 1);
    CHECK(kept.retained == 10);
    CHECK(kept.available_mib == 500);
    CHECK(kept.finish == protocol::Finish::cancel);
    const protocol::DoneLine older = done_of("DONE 1 10 1.0 1.0 length 0 0 0 0 0 0 0 0 10 id=4");
    CHECK_FALSE(merge_passes(older, done_of(kLast)).cache_fields);
}

TEST_CASE("The present is that of the running epoch alone") {
    CacheWatch watch;
    CHECK(watch.present(1) == CachePresent{});
    watch.done(10, 1, done_of(cached(100, 0, 1, 0)));
    CHECK(watch.present(1).parked == 1);
    CHECK(watch.present(1).as_of_s == 10);
    CHECK(watch.present(2) == CachePresent{});
    watch.done(20, 2, done_of(plain(50)));
    CHECK_FALSE(watch.present(2).parked);
    CHECK(watch.present(1) == CachePresent{});
    // Late words of the epoch before change nothing.
    watch.done(30, 1, done_of(cached(100, 0, 1, 0)));
    watch.pressure(30, 1, pressure_of("PRESSURE parked=7 where=idle"));
    watch.listed(30, 1, {7, 7, 7});
    CHECK(watch.present(1) == CachePresent{});
    CHECK_FALSE(watch.present(2).parked);
    watch.done(40, 2, done_of(cached(60, 0, 1, 0)));
    watch.done(50, 2, done_of(plain(50)));
    CHECK(watch.present(2).parked == 1);
    CHECK(watch.present(2).as_of_s == 40);
    // The first word of an epoch need not be a DONE.
    watch.pressure(60, 3, pressure_of("PRESSURE parked=2 where=idle"));
    CHECK(watch.present(3).parked == 2);
    CHECK_FALSE(watch.present(3).bytes);
}

TEST_CASE("The present is shown while the engine is ready and the cache is on") {
    MonitorStory story(0);
    story.simple(1, 100, 0, true, false);
    const auto shown = [&](const MetricsInput& input) {
        return conversation_cache_json(input.engine, story.monitor.history(), story.monitor.watch(),
                                       input.cache);
    };
    MetricsInput input = ready_input(1);
    CHECK(shown(input).at("enabled").as_bool());
    CHECK(shown(input).at("parked").to_number<int>() == 1);
    CHECK(shown(input).at("budget_bytes").to_number<std::int64_t>() == 512 * 1048576LL);
    for (const EngineState state : {EngineState::loading, EngineState::restarting,
                                    EngineState::unloaded, EngineState::failed}) {
        input.engine.state = state;
        CHECK_FALSE(shown(input).contains("parked"));
        CHECK_FALSE(shown(input).contains("budget_bytes"));
    }
    input = ready_input(2);  // of which no DONE came
    CHECK(shown(input).at("parked").is_null());
    CHECK(shown(input).at("slots").to_number<int>() == 4);
    input.engine.info->conversation_cache_mib = 0;
    input.cache.enabled = true;  // asked for, and the engine says that it is off
    CHECK_FALSE(shown(input).at("enabled").as_bool());
    CHECK_FALSE(shown(input).contains("parked"));
    CHECK(shown(input).at("rows").to_number<int>() == 1);
}

TEST_CASE("The last 200 events are kept and the newest comes first") {
    CacheWatch watch;
    for (int i = 0; i < 205; ++i) {
        watch.conversation(i, 1, conv_of("CONV park conv=" + std::to_string(i) + " ms=10.0"));
    }
    watch.pressure(300, 1, pressure_of("PRESSURE released_mib=5 where=idle"));
    watch.pressure(301, 1, pressure_of("PRESSURE released_mib=0 where=command"));
    REQUIRE(watch.newest_first().size() == 200);
    CHECK(watch.newest_first().front().time_s == 301);
    CHECK(watch.newest_first().back().time_s == 7);
    CHECK(watch.counts().parks == 205);
    CHECK(watch.counts().pressure_events == 1);
    CHECK(watch.counts().park_s.count() == 205);
    CHECK(watch.counts().park_s.sum() == Approx(2.05));
}

TEST_CASE("Every kind of event has its own count") {
    CacheWatch watch;
    for (const char* line : {"CONV restore", "CONV borrow", "CONV evict reason=slots",
                             "CONV evict reason=budget", "CONV evict reason=budget", "CONV release",
                             "CONV supersede", "CONV lost", "CONV skip", "CONV drop"}) {
        watch.conversation(1, 1, conv_of(line));
    }
    CHECK(watch.counts().restores == 2);
    CHECK(watch.counts().evicted_slots == 1);
    CHECK(watch.counts().evicted_budget == 2);
    CHECK(watch.counts().released == 1);
    CHECK(watch.counts().superseded == 1);
    CHECK(watch.counts().lost == 1);
    CHECK(watch.counts().skipped == 1);
    CHECK(watch.counts().parks == 0);
}

TEST_CASE("A row whose client left waits for the DONE of its own ticket") {
    MonitorStory story(0);
    Monitor& monitor = story.monitor;
    HistoryRow left = ended_row("left", {1, 7}, 10, 1, 0);
    left.output_tokens = 2;
    monitor.ended(left, Ticket{1, 7});
    CHECK(monitor.history().newest_first().empty());
    monitor.on_ticket_done({1, 8}, done_of(cached(50, 0, 1, 0)));
    monitor.on_ticket_done({2, 7}, done_of(cached(51, 0, 1, 0)));
    CHECK(monitor.history().newest_first().empty());
    monitor.on_ticket_done({1, 7}, done_of(cached(52, 0, 1, 0)));
    REQUIRE(monitor.history().newest_first().size() == 1);
    CHECK(monitor.history().newest_first().front().done->prompt_tokens == 52);
    monitor.on_ticket_done({1, 7}, done_of(cached(53, 0, 1, 0)));
    CHECK(monitor.history().newest_first().size() == 1);
    monitor.ended(ended_row("lost", {2, 9}, 12, 1, 0), Ticket{2, 9});
    monitor.on_ticket_lost({2, 9}, {});
    REQUIRE(monitor.history().newest_first().size() == 2);
    CHECK_FALSE(monitor.history().newest_first().front().done);
}

TEST_CASE("First words follow a conversation within one epoch") {
    MonitorStory story(0);
    HistoryRow row = ended_row("a", {1, 1}, 1, 1, 0);
    row.first_words = "Plan a garden";
    protocol::DoneLine done = done_of(cached(50, 0, 1, 0));
    done.conv = 3;
    story.answered(row, done);
    CHECK(story.monitor.first_words().at(3) == "Plan a garden");
    row.epoch = 2;
    row.first_words = "";
    story.answered(row, done);
    CHECK(story.monitor.first_words().empty());
}

TEST_CASE("The parts of RAM add up and none is negative") {
    HardwareReading reading;
    CHECK_FALSE(ram_split(reading, {}, {}));
    reading.ram_total_bytes = 1000;
    reading.ram_available_bytes = 300;
    reading.engine_resident_bytes = 500;
    reading.server_resident_bytes = 100;
    const auto sum = [](const RamSplit& s) {
        return s.weights_bytes.value_or(0) + s.active_kv_bytes.value_or(0) +
               s.checkpoints_bytes.value_or(0) + s.parked_bytes.value_or(0) +
               s.retained_bytes.value_or(0) + s.engine_other_bytes.value_or(0) +
               s.server_bytes.value_or(0) + s.other_bytes + s.free_bytes;
    };
    protocol::InfoLine info;
    info.device = "cpu";
    info.kv_bytes_per_token = 2;
    info.state_bytes = 10;
    info.weights_mib = 1;  // more than the process holds
    CachePresent present;
    present.bytes = 150;
    present.retained = 50;
    present.checkpoints = 3;
    present.live_tokens = 15;
    auto split = ram_split(reading, info, present);
    REQUIRE(split);
    CHECK(split->parked_bytes == 100);
    CHECK(split->retained_bytes == 50);
    CHECK(split->checkpoints_bytes == 30);
    CHECK(split->active_kv_bytes == 30);
    CHECK(split->weights_bytes == 290);
    CHECK(split->engine_other_bytes == 0);
    CHECK(split->other_bytes == 100);
    CHECK(split->free_bytes == 300);
    CHECK(sum(*split) == 1000);
    info.device = "NVIDIA H200";
    split = ram_split(reading, info, present);
    CHECK_FALSE(split->weights_bytes);
    CHECK_FALSE(split->active_kv_bytes);
    CHECK(sum(*split) == 1000);
    reading.engine_resident_bytes = 990;  // readings of two moments
    split = ram_split(reading, info, present);
    CHECK(sum(*split) == 1000);
    CHECK(split->free_bytes == 0);
    CHECK(split->other_bytes == 0);
}

TEST_CASE("Groups say what the cache was for a request") {
    CHECK(cache_group(done_of(cached(10, 0, 1, 0))) == CacheGroup::cold);
    CHECK(cache_group(done_of(cached(10, 3, 1, 0))) == CacheGroup::root);
    CHECK(cache_group(done_of(cached(10, 9, 1, 1))) == CacheGroup::restored);
    CHECK(cache_group(done_of(cached(10, 9, 0, 0))) == CacheGroup::warm);
    CHECK_FALSE(cache_group(done_of(plain(10))));
}

TEST_CASE("A histogram counts each value once and every bound what lies below") {
    Histogram histogram(kMoveSecondsBounds);
    histogram.add(0.001);
    histogram.add(0.0011);
    histogram.add(60, 2);
    histogram.add(-1);
    CHECK(histogram.at_most(0) == 2);
    CHECK(histogram.at_most(1) == 3);
    CHECK(histogram.at_most(kMoveSecondsBounds.size() - 1) == 3);
    CHECK(histogram.count() == 5);
    CHECK(histogram.sum() == Approx(120.0021));
}

TEST_CASE("Prometheus text escapes the model and hides what is not known") {
    MonitorStory story(0);
    MetricsInput unknown;
    unknown.cache.enabled = true;
    const std::string page = prometheus_text(unknown, story.monitor, "a\"b\\c\nd");
    CHECK(page.find("model_name=\"a\\\"b\\\\c\\nd\"") != std::string::npos);
    CHECK(page.find("strata:conversation_parked") == std::string::npos);
    CHECK(page.find("vllm:kv_cache_usage_perc") == std::string::npos);
    CHECK(page.find("strata:conversation_switches_total{") != std::string::npos);
    story.simple(1, 100, 90, true, true);
    const std::string later = prometheus_text(ready_input(1), story.monitor, "m");
    CHECK(later.find("strata:conversation_parked{model_name=\"m\"} 1\n") != std::string::npos);
    CHECK(later.find("strata:conversation_bytes{model_name=\"m\",kind=\"parked\"} 1000\n") !=
          std::string::npos);
    CHECK(later.find("strata:conversation_switches_total{model_name=\"m\",result=\"hit\"} 1\n") !=
          std::string::npos);
    CHECK(later.find("vllm:request_success_total{model_name=\"m\",finished_reason=\"stop\"} 1\n") !=
          std::string::npos);
    CHECK(later.find("vllm:prefix_cache_hits_total{model_name=\"m\"} 90\n") != std::string::npos);
}

}  // namespace strata::serve::tests
