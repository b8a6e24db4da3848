// The documents that the page's tests read are what this code writes: each is made here from lines
// of the protocol and compared, key by key and value by value, with its file.
#include <fstream>
#include <iterator>
#include <string>

#include <boost/json/parse.hpp>
#include <boost/json/serialize.hpp>
#include <catch2/catch.hpp>

#include "serve/monitor/metrics_json.hpp"
#include "tests/serve/monitor/monitor_story.hpp"

namespace strata::serve::tests {
namespace {

namespace json = boost::json;

constexpr double kNow = 1764482400.0;
constexpr std::int64_t kMiB = 1 << 20;

json::value file(const std::string& name) {
    std::ifstream stream(STRATA_SOURCE_DIR "/tests/fixtures/metrics/" + name);
    REQUIRE(stream);
    const std::string text{std::istreambuf_iterator<char>(stream), {}};
    return json::parse(text);
}

// As a client would read it.
json::value read_back(const json::object& document) {
    return json::parse(json::serialize(document));
}

void check_same(const json::value& made, const json::value& golden, const std::string& path) {
    INFO(path);
    if (made.is_object() && golden.is_object()) {
        for (const auto& [key, value] : golden.as_object()) {
            const json::value* mine = made.as_object().if_contains(key);
            INFO("key " << std::string(key));
            CHECK(mine != nullptr);
            if (mine != nullptr) check_same(*mine, value, path + "." + std::string(key));
        }
        for (const auto& [key, value] : made.as_object()) {
            INFO("key that the file has not: " << std::string(key));
            CHECK(golden.as_object().contains(key));
        }
        return;
    }
    if (made.is_array() && golden.is_array()) {
        REQUIRE(made.as_array().size() == golden.as_array().size());
        for (std::size_t i = 0; i < golden.as_array().size(); ++i) {
            check_same(made.as_array()[i], golden.as_array()[i],
                       path + "[" + std::to_string(i) + "]");
        }
        return;
    }
    if (made.is_double() && golden.is_double()) {
        CHECK(made.as_double() == Approx(golden.as_double()).epsilon(1e-12));
        return;
    }
    CHECK(made == golden);
}

MetricsInput input_of_golden() {
    MetricsInput input;
    input.now_s = kNow;
    input.engine.state = EngineState::ready;
    input.engine.epoch = 2;
    input.engine.engine_starts = 2;
    input.engine.foreign_lines = 3;
    input.engine.foreign_dones = 2;
    input.engine.unexpected_ends = 1;
    input.engine.last_lines = {"strata-engine: ready"};
    const auto info = protocol::parse_info_line(
        "INFO protocol=1 context=32768 vocab=1024 kv=f16 page_tokens=256 device=cpu "
        "weights_mib=300 arch=qwen35 quant=q8_0 steer=0 prompt_cache=6 conversation_cache_mib=512 "
        "conversation_cache_slots=4 conversation_cache_min_free_mib=2560 memory_limit_mib=0 "
        "kv_bytes_per_token=4096 state_bytes=1048576 model_id=c0ffee engine=0.1.0");
    REQUIRE(info.ok());
    input.engine.info = *info;
    input.samples = {{998, 0, 0}, {999, 50, 0}, {1000, 0, 30}};
    input.hardware.cpu_share = 0.25;
    input.hardware.cpu_threads = 8;
    input.hardware.ram_total_bytes = 16000 * kMiB;
    input.hardware.ram_available_bytes = 9000 * kMiB;
    input.hardware.engine_resident_bytes = 1000 * kMiB;
    input.hardware.server_resident_bytes = 50 * kMiB;
    input.cache = {true, 2560 * kMiB, 1024 * kMiB, 20};
    return input;
}

HistoryRow worded(HistoryRow row, std::optional<double> ttft_ms, const std::string& words) {
    row.ttft_ms = ttft_ms;
    row.first_words = words;
    return row;
}

// The first engine: a chat, a second one, back to the first, whose client leaves; then it crashes.
void first_epoch(MonitorStory& story) {
    Monitor& monitor = story.monitor;
    story.now_s = kNow - 300;
    story.answered(worded(ended_row("req-1", {1, 1}, kNow - 300, 2, 0), 900, "Plan a garden"),
                   done_of("DONE 40 1000 880.0 1100.0 stop 0 0 0 0 0 0 0 0 1000 1 0 0 0 0 id=1 "
                           "conv=1 source=cold miss=new common=0 retained=0"));
    story.now_s = kNow - 281;
    monitor.on_conversation(
        1,
        conv_of("CONV park entry=1 conv=1 tokens=1040 bytes=67108864 ms=31.5 id=2 label=garden"));
    story.now_s = kNow - 280;
    HistoryRow second = worded(ended_row("req-2", {1, 2}, kNow - 280, 1.5, 0), 600, "");
    second.finish = protocol::Finish::length;
    story.answered(second,
                   done_of("DONE 64 900 560.5 900.0 length 0 0 500 0 0 0 0 0 400 1 0 1 67108864 0 "
                           "id=2 conv=2 source=root miss=new common=500 park_ms=31.5 parked_now=1 "
                           "retained=0"));
    story.now_s = kNow - 273.5;
    monitor.on_conversation(1, conv_of("CONV skip conv=2 tokens=964 bytes=0 id=3 reason=budget"));
    story.now_s = kNow - 273;
    monitor.on_conversation(
        1, conv_of("CONV restore entry=1 conv=1 tokens=1040 bytes=67108864 ms=12.5 id=3"));
    HistoryRow third = worded(ended_row("req-3", {1, 3}, kNow - 270, 4, 500), {}, "Plan a garden");
    third.finish = protocol::Finish::cancel;
    third.failure = "the client left";
    third.prompt_length = 1100;
    monitor.ended(third, Ticket{1, 3});
    story.now_s = kNow - 270;
    monitor.on_ticket_done(
        {1, 3}, done_of("DONE 0 1100 70.0 0.0 cancel 0 0 1040 0 0 0 0 0 60 1 1 1 75497472 0 id=3 "
                        "conv=1 source=parked miss=none common=1040 park_ms=25.0 restore_ms=12.5 "
                        "parked_now=1 retained=8388608"));
    HistoryRow fourth = worded(ended_row("req-4", {1, 4}, kNow - 250, 1, 0), {}, "");
    fourth.finish = protocol::Finish::error;
    fourth.failure = "the engine ended by signal 9 (SIGKILL)";
    fourth.prompt_length = 1200;  // of which it had read nothing
    monitor.on_ticket_lost({1, 4}, {});
    monitor.ended(fourth, std::nullopt);
}

// The next one: two passes of a request with a thinking budget, its next turn, another chat.
void second_epoch(MonitorStory& story) {
    Monitor& monitor = story.monitor;
    story.now_s = kNow - 201;
    const auto first = done_of(
        "DONE 20 1200 1450.0 300.0 length 0 0 0 0 0 0 0 0 1200 1 0 0 0 0 id=5 conv=1 source=cold "
        "miss=new common=0 retained=0");
    const auto last = done_of(
        "DONE 70 1225 9.0 1100.0 stop 0 0 1220 0 0 0 0 0 5 0 0 0 0 0 id=6 conv=1 source=live "
        "miss=none common=1220 retained=0");
    monitor.on_ticket_done({2, 5}, first);
    story.now_s = kNow - 200;
    HistoryRow fifth = worded(ended_row("req-5", {2, 5}, kNow - 200, 3, 0), 1500, "Plan a garden");
    fifth.done = first;
    fifth.prompt_length = 1200;
    fifth.passes = 1;
    monitor.ended(fifth, Ticket{2, 6});
    monitor.on_ticket_done({2, 6}, last);
    story.now_s = kNow - 100;
    story.answered(
        worded(ended_row("req-6", {2, 7}, kNow - 100, 1, 10), 120, "Plan a garden"),
        done_of("DONE 30 1300 90.0 850.0 stop 0 0 1250 0 0 0 0 0 50 0 0 0 4194304 0 id=7 "
                "conv=1 source=turn miss=none common=1250 retained=4194304"));
    story.now_s = kNow - 61;
    monitor.on_conversation(
        2, conv_of("CONV park entry=1 conv=1 tokens=1330 bytes=83886080 ms=41.25 id=8"));
    // Lines have one decimal; the figure is what the engine printed.
    story.now_s = kNow - 60;
    story.answered(
        worded(ended_row("req-7", {2, 8}, kNow - 60, 2, 0), 800, ""),
        done_of("DONE 30 800 760.0 1150.0 stop 0 0 0 0 0 0 0 0 800 1 0 1 83886080 0 id=8 conv=2 "
                "source=cold miss=new common=12 park_ms=41.25 parked_now=1 retained=0 superseded=1 "
                "released=2 lost=0 evicted_budget=0 evicted_slots=0 checkpoints=2 "
                "available_mib=9761"));
    story.now_s = kNow - 31;
    // Its client still waits; what it left in the cache is known.
    monitor.on_ticket_done(
        {2, 9}, done_of("DONE 30 800 760.0 1150.0 stop 0 0 0 0 0 0 0 0 800 1 0 2 115343360 0 id=9 "
                        "conv=4 source=cold miss=new retained=0 superseded=1 released=1 lost=0 "
                        "evicted_budget=0 evicted_slots=0 checkpoints=2 available_mib=9000"));
    story.now_s = kNow - 30;
    monitor.on_conversation(
        2, conv_of("CONV release entry=1 conv=3 tokens=400 bytes=31457280 parked=1 "
                   "held=83886080 retained=0"));
    monitor.on_pressure(
        2,
        pressure_of("PRESSURE available_before_mib=1500 available_after_mib=3700 floor_mib=2560 "
                    "target_mib=3584 released_dialogs=2 released_mib=2180 retained_mib=0 "
                    "lane_checkpoints_mib=0 ms=131.5 parked=1 held=83886080 retained=0 where=idle "
                    "exhausted=0"));
}

void whole_story(MonitorStory& story) {
    story.monitor.refused("rate_limit_error");
    first_epoch(story);
    second_epoch(story);
}

}  // namespace

TEST_CASE("The metrics of a day are the golden document") {
    MonitorStory story(kNow - 3600);
    whole_story(story);
    const auto made =
        metrics_json(input_of_golden(), story.monitor.history(), story.monitor.watch());
    check_same(read_back(made), file("golden.json"), "metrics");
}

TEST_CASE("Without an engine the golden document has no present") {
    MonitorStory story(kNow - 3600);
    whole_story(story);
    MetricsInput input = input_of_golden();
    input.engine.state = EngineState::unloaded;
    input.engine.info.reset();
    input.hardware.engine_resident_bytes.reset();
    const auto made = metrics_json(input, story.monitor.history(), story.monitor.watch());
    check_same(read_back(made), file("unloaded.json"), "metrics");
}

TEST_CASE("An engine that prints 14 fields makes the golden document of an older engine") {
    MonitorStory story(kNow - 3600);
    story.now_s = kNow - 60;
    story.answered(worded(ended_row("req-1", {2, 1}, kNow - 60, 2, 0), 800, ""),
                   done_of("DONE 30 800 760.0 1150.0 stop 0 0 0 0 0 0 0 0 800 id=1"));
    MetricsInput input = input_of_golden();
    input.engine.info->conversation_cache_mib.reset();
    input.engine.info->conversation_cache_slots.reset();
    input.engine.info->conversation_cache_min_free_mib.reset();
    const auto made = metrics_json(input, story.monitor.history(), story.monitor.watch());
    check_same(read_back(made), file("older_engine.json"), "metrics");
}

TEST_CASE("The list of parked conversations is the golden document") {
    const auto row = [](const std::string& line) {
        const auto parsed = protocol::parse_cache_line(line);
        REQUIRE(parsed.ok());
        return *parsed->row;
    };
    const std::vector<protocol::CacheRow> rows = {
        row("CACHE entry=3 conv=2 tokens=830 bytes=83886080 unique_bytes=25165824 checkpoints=2 "
            "last_used=60 hits=1 pinned=1 steer=off where=ram"),
        row("CACHE entry=4 conv=5 tokens=1330 bytes=94371840 unique_bytes=35651584 checkpoints=3 "
            "last_used=7 hits=0 pinned=0 steer=calm where=ram")};
    const MetricsInput input = input_of_golden();
    const auto made =
        cache_list_json(kNow, input.engine, input.cache, rows, {{2, "Plan a garden"}});
    check_same(read_back(made), file("cache_list.json"), "cache");
}

}  // namespace strata::serve::tests
