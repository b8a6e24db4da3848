// Protects what the server remembers and shows: ring and totals, the seconds of the speed meter,
// readings of the machine, and the keys of /metrics and /status with null for what is unknown.
#include <algorithm>
#include <string>

#include <catch2/catch.hpp>

#include "serve/monitor/hardware.hpp"
#include "serve/monitor/metrics_json.hpp"
#include "serve/monitor/request_history.hpp"
#include "serve/monitor/speed_meter.hpp"

namespace strata::serve {
namespace {

HistoryRow row_with(std::int64_t prompt, std::int64_t reused, std::int64_t generated) {
    HistoryRow row;
    protocol::DoneLine done;
    done.prompt_tokens = prompt;
    done.reused = reused;
    done.prompt_read = prompt - reused;
    done.generated = generated;
    done.prompt_ms = 10;
    done.decode_ms = 20;
    row.done = done;
    row.request_id = "r" + std::to_string(prompt);
    return row;
}

}  // namespace

TEST_CASE("The history keeps the newest rows and totals of all") {
    RequestHistory history(100.0);
    constexpr std::size_t kAdded = RequestHistory::kRowsMax + 7;
    for (std::size_t i = 1; i <= kAdded; ++i)
        history.add(row_with(static_cast<std::int64_t>(i), 1, 2));
    CHECK(history.newest_first().size() == RequestHistory::kRowsMax);
    CHECK(history.newest_first().front().request_id == "r" + std::to_string(kAdded));
    CHECK(history.newest_first().back().request_id == "r8");
    CHECK(history.totals().requests == kAdded);
    CHECK(history.totals().prompt_tokens == static_cast<std::int64_t>(kAdded * (kAdded + 1) / 2));
    CHECK(history.totals().reused_tokens == static_cast<std::int64_t>(kAdded));
    CHECK(history.totals().output_tokens == static_cast<std::int64_t>(2 * kAdded));
    CHECK(history.totals().since_s == 100.0);
}

TEST_CASE("requests that never held the engine do not push the others out") {
    RequestHistory history(0);
    const auto add = [&](std::uint64_t epoch, const std::string& id) {
        HistoryRow row;
        row.epoch = epoch;
        row.request_id = id;
        history.add(row);
    };
    const auto with_epoch = [&](std::uint64_t epoch) {
        const auto& rows = history.newest_first();
        return static_cast<std::size_t>(std::count_if(
            rows.begin(), rows.end(), [&](const HistoryRow& row) { return row.epoch == epoch; }));
    };
    add(1, "served");
    constexpr std::size_t kMost = RequestHistory::kRefusedRowsMax;
    for (std::size_t i = 0; i + 1 < kMost; ++i) add(0, std::to_string(i));
    CHECK(with_epoch(0) == kMost - 1);
    add(0, "at the border");
    CHECK(with_epoch(0) == kMost);
    CHECK(history.newest_first().front().request_id == "at the border");
    for (std::size_t i = 0; i < 2 * RequestHistory::kRowsMax; ++i) add(0, "flood");
    CHECK(with_epoch(0) == kMost);
    CHECK(with_epoch(1) == 1);
    CHECK(history.newest_first().back().request_id == "served");
    for (std::size_t i = 0; i < RequestHistory::kRowsMax; ++i) add(1, "served again");
    CHECK(with_epoch(0) == 0);
    CHECK(with_epoch(1) == RequestHistory::kRowsMax);
    for (std::size_t i = 0; i < kMost + 1; ++i) add(0, "later");
    CHECK(with_epoch(0) == kMost);
    CHECK(history.totals().requests == 2 + 2 * kMost + 3 * RequestHistory::kRowsMax);
}

TEST_CASE("A request without DONE counts as a request and adds no tokens") {
    RequestHistory history(0);
    HistoryRow row;
    row.failure = "the engine ended";
    history.add(row);
    CHECK(history.totals().requests == 1);
    CHECK(history.totals().prompt_tokens == 0);
}

TEST_CASE("The speed meter gives five minutes with zeros where nothing happened") {
    SpeedMeter meter;
    meter.read(100.2, 512);
    meter.read(100.9, 100);
    meter.wrote(103.0, 1);
    const auto samples = meter.samples(103.5);
    REQUIRE(samples.size() == SpeedMeter::kSeconds);
    CHECK(samples.back().second == 103);
    CHECK(samples.back().written_tokens == 1);
    CHECK(samples[296].second == 100);
    CHECK(samples[296].read_tokens == 612);
    CHECK(samples[297].read_tokens == 0);
    const auto later = meter.samples(403.0);
    for (const auto& sample : later) CHECK(sample.read_tokens + sample.written_tokens == 0);
    meter.wrote(403.0, 5);  // the place of second 103
    CHECK(meter.samples(403.0).back().written_tokens == 5);
}

TEST_CASE("The time left of a prompt follows the rate of the last seconds") {
    SpeedMeter meter;
    meter.read(100.0, 9000);  // before the request that runs
    meter.read(195.5, 1000);
    meter.read(197.0, 1000);
    // The request runs for two seconds: 2,000 tokens in them, 3,000 are left.
    CHECK(reading_left_s(meter.samples(197.4), 2.0, 3000) == 3);
    // It runs for long: the ten whole seconds before the one that is not over.
    meter.read(200.0, 500);
    CHECK(reading_left_s(meter.samples(200.1), 60.0, 2000) == 10);
    CHECK_FALSE(reading_left_s(meter.samples(300.0), 60.0, 2000));
    CHECK_FALSE(reading_left_s(meter.samples(200.1), 0.0, 2000));
    CHECK_FALSE(reading_left_s({}, 5.0, 2000));
}

TEST_CASE("The metrics have the seconds of five minutes and the machine's parts") {
    RequestHistory history(1.0);
    SpeedMeter meter;
    meter.read(1000.0, 700);
    meter.wrote(1001.0, 3);
    MetricsInput input;
    input.samples = meter.samples(1001.5);
    input.engine.state = EngineState::ready;
    input.engine.busy = true;
    input.engine.prompt_tokens = 2100;
    input.engine.prompt_read = 700;
    input.now = std::chrono::steady_clock::time_point{} + std::chrono::seconds(10);
    input.engine.active_since = input.now - std::chrono::seconds(2);
    input.engine.last_lines = std::vector<std::string>(30, "a line");
    input.hardware.cpu_share = 0.5;
    input.hardware.cpu_threads = 8;
    GpuReading gpu;
    gpu.name = "one";
    gpu.load_share = 0.25;
    input.hardware.gpus.push_back(gpu);
    const auto out = metrics_json(input, history, {});
    const auto& speed = out.at("speed").as_object();
    REQUIRE(speed.at("read").as_array().size() == 300);
    CHECK(speed.at("last_second").as_int64() == 1001);
    CHECK(speed.at("read").as_array()[298].as_int64() == 700);
    CHECK(speed.at("written").as_array()[299].as_int64() == 3);
    CHECK(out.at("history").as_array().size() == 60);
    CHECK(out.at("live").at("eta_s").as_int64() == 4);
    CHECK(out.at("engine").at("last_lines").as_array().size() == 20);
    const auto& hardware = out.at("hardware").as_object();
    CHECK(hardware.at("cpu").at("threads").as_int64() == 8);
    CHECK(hardware.at("gpus").as_array().size() == 1);
    CHECK(hardware.at("gpu").at("name").as_string() == "one");
    CHECK(hardware.at("gpu").at("load_share").as_double() == 0.25);
    CHECK(hardware.at("gpu").at("power_watts").is_null());
}

TEST_CASE("Processor times come from the first line of proc stat") {
    const auto before = parse_cpu_times("cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3 4\n");
    REQUIRE(before);
    CHECK(before->all == 1000);
    CHECK(before->busy == 150);
    const auto after = parse_cpu_times("cpu  160 0 70 860 60 0 0 0 0 0\n");
    REQUIRE(after);
    CHECK(*busy_share(*before, *after) == Approx(80.0 / 150.0));
    CHECK_FALSE(busy_share(*after, *before));
    CHECK_FALSE(busy_share(*before, *before));
    CHECK_FALSE(parse_cpu_times(""));
    CHECK_FALSE(parse_cpu_times("cpu0 1 2 3 4"));
    CHECK_FALSE(parse_cpu_times("cpu  1 x"));
}

TEST_CASE("Memory lines are found by their whole name") {
    const std::string text =
        "MemTotal:       24000000 kB\nMemAvailable:   1 kB\nMemFree: many kB\n";
    CHECK(parse_kib_line(text, "MemTotal") == 24'000'000LL * 1024);
    CHECK(parse_kib_line(text, "MemAvailable") == 1024);
    CHECK_FALSE(parse_kib_line(text, "Mem"));
    CHECK_FALSE(parse_kib_line(text, "MemFree"));
    CHECK_FALSE(parse_kib_line("MemTotal: 99999999999999999999 kB", "MemTotal"));
}

TEST_CASE("The metrics have the keys of the page with null for the unknown") {
    RequestHistory history(1.0);
    auto good = row_with(48, 40, 6);
    good.done->cache_fields = protocol::CacheFields{true, false, 0, 0, 0};
    good.done->source = protocol::PromptSource::turn;
    good.done->finish = protocol::Finish::cancel;  // the engine was told to stop
    good.finish = protocol::Finish::stop;          // at a stop string
    history.add(good);
    auto old_engine = row_with(5, 0, 1);
    history.add(old_engine);
    HistoryRow failed;
    failed.failure = "the engine ended";
    history.add(failed);

    MetricsInput input;
    input.now_s = 7;
    const auto out = metrics_json(input, history, {});
    for (const char* key :
         {"time", "engine", "live", "requests", "totals", "hardware", "history"}) {
        INFO(key);
        CHECK(out.contains(key));
    }
    const auto& rows = out.at("requests").as_array();
    REQUIRE(rows.size() == 3);
    CHECK(rows[0].at("finish").as_string() == "error");
    CHECK(rows[2].at("finish").as_string() == "stop");
    CHECK(rows[1].at("switched").is_null());
    CHECK(rows[1].at("source").is_null());
    CHECK(rows[1].at("ttft_ms").is_null());
    CHECK(rows[2].at("switched").as_bool());
    CHECK(rows[2].at("source").as_string() == "turn");
    CHECK(rows[2].at("prompt_read").as_int64() == 8);
    CHECK(out.at("engine").at("context").is_null());
    CHECK(out.at("hardware").at("ram").is_null());
    CHECK(out.at("hardware").at("gpu").is_null());
    CHECK(out.at("hardware").at("gpus").as_array().empty());
    CHECK(out.at("totals").at("requests").as_uint64() == 3);
}

TEST_CASE("The status has a state for each life of the engine") {
    const auto at = [](std::int64_t s) {
        return std::chrono::steady_clock::time_point{} + std::chrono::seconds(s);
    };
    const auto state_of = [&](const EngineView& view) {
        return std::string(status_json(view, at(10)).at("state").as_string());
    };
    EngineView view;
    view.state = EngineState::loading;
    CHECK(state_of(view) == "loading");
    view.state = EngineState::failed;
    CHECK(state_of(view) == "failed");
    view.state = EngineState::stopped;
    CHECK(state_of(view) == "unloaded");
    view.state = EngineState::ready;
    CHECK(state_of(view) == "idle");
    view.busy = true;
    view.prompt_tokens = 48000;
    view.prompt_read = 12288;
    view.active_since = at(7);
    CHECK(state_of(view) == "reading");
    const auto reading = status_json(view, at(10));
    CHECK(reading.at("phase").as_string() == "reading the prompt");
    CHECK(reading.at("prompt_read").as_int64() == 12288);
    CHECK(reading.at("elapsed_s").as_double() == Approx(3.0));
    view.generated = 1;
    CHECK(state_of(view) == "generating");
}

}  // namespace strata::serve
