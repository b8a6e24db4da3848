// Protects the present of the conversation cache: the newest word of the running epoch about each
// figure, whichever line said it, and nothing that no line has said.
#include <string>
#include <variant>

#include <catch2/catch.hpp>

#include "protocol/event.hpp"
#include "serve/monitor/metrics_json.hpp"
#include "serve/monitor/prometheus.hpp"
#include "tests/serve/monitor/monitor_story.hpp"

namespace strata::serve::tests {
namespace {

constexpr std::int64_t kMiB = 1 << 20;
constexpr double kLater = 50;

// Three parked conversations in 100 MiB, 12 MiB and a bit of that kept for the live one.
const std::string kDone =
    "DONE 5 100 1.0 1.0 stop 0 0 40 0 0 0 0 0 60 1 0 3 104857600 2 id=1 retained=12582913 "
    "superseded=1 released=4 lost=1 evicted_budget=1 evicted_slots=1 checkpoints=2 "
    "available_mib=500";

CachePresent started() {
    return after(CachePresent{}, done_of(kDone), 10);
}

CachePresent conv(const CachePresent& present, const std::string& line) {
    return after(present, conv_of(line), kLater);
}

CachePresent pressure(const CachePresent& present, const std::string& line) {
    return after(present, pressure_of(line), kLater);
}

}  // namespace

TEST_CASE("A DONE says every figure and a later one replaces them all") {
    const CachePresent present = started();
    CHECK(present.as_of_s == 10);
    CHECK(present.parked == 3);
    CHECK(present.bytes == 104857600);
    CHECK(present.retained == 12582913);
    CHECK(present.parked_bytes() == 104857600 - 12582913);
    CHECK(present.evictions == 2);
    CHECK(present.released == 4);
    CHECK(present.lost == 1);
    CHECK(present.available_mib == 500);
    CHECK(present.live_tokens == 105);
    // The next one has no reading and no names: what it leaves out is not known any more.
    const CachePresent next = after(
        present, done_of("DONE 1 50 1.0 1.0 stop 0 0 0 0 0 0 0 0 50 1 0 1 900 2 id=2"), kLater);
    CHECK(next.parked == 1);
    CHECK_FALSE(next.available_mib);
    CHECK_FALSE(next.retained);
    CHECK_FALSE(next.parked_bytes());
    // One without the fields says nothing of the cache.
    const CachePresent same =
        after(present, done_of("DONE 0 50 0.0 0.0 cancel 0 0 0 0 0 0 0 0 0 id=3"), kLater);
    CHECK(same == present);
}

TEST_CASE("A conversation that is released while idle is gone from every figure") {
    const CachePresent present =
        conv(started(),
             "CONV release entry=7 conv=2 tokens=40 bytes=20971520 parked=2 held=83886080 "
             "retained=12582913");
    CHECK(present.parked == 2);
    CHECK(present.bytes == 80 * kMiB);
    CHECK(present.retained == 12582913);
    CHECK(present.released == 5);
    CHECK(present.evictions == 2);
    CHECK(present.as_of_s == kLater);
}

TEST_CASE("A conversation that is dropped by hand is gone and counts as nothing else") {
    const CachePresent present =
        conv(started(),
             "CONV drop entry=7 bytes=1048576 reason=command parked=2 held=103809024 retained=0");
    CHECK(present.parked == 2);
    CHECK(present.bytes == 99 * kMiB);
    CHECK(present.retained == 0);
    CHECK(present.released == 4);
    CHECK(present.superseded == 1);
    CHECK(present.evictions == 2);
}

TEST_CASE("What is held is the engine's own word and never a sum of what it moved") {
    // 1 MiB was newly written; the checkpoints of the conversation were in RAM before and count
    // now.
    const CachePresent parked =
        conv(started(),
             "CONV park entry=8 conv=1 tokens=9 bytes=1048576 id=2 parked=4 held=125829120 "
             "retained=0");
    CHECK(parked.parked == 4);
    CHECK(parked.bytes == 120 * kMiB);
    CHECK(parked.retained == 0);
    const CachePresent restored =
        conv(parked,
             "CONV restore entry=7 conv=2 tokens=9 bytes=5 ms=1.0 id=2 parked=3 held=125829120 "
             "retained=20971520");
    CHECK(restored.parked == 3);
    CHECK(restored.bytes == 120 * kMiB);
    CHECK(restored.parked_bytes() == 100 * kMiB);
}

TEST_CASE("Each step of an exchange counts as what it is") {
    const CachePresent before = started();
    CHECK(conv(before, "CONV borrow entry=7 conv=2 tokens=9 bytes=5 id=2") == before);
    CHECK(conv(before, "CONV skip conv=2 reason=floor id=2").skipped == 1);
    const CachePresent evicted = conv(before, "CONV evict entry=7 bytes=1048576 reason=slots id=2");
    CHECK(evicted.evictions == 3);
    CHECK(evicted.evicted_slots == 2);
    CHECK(evicted.evicted_budget == 1);
    const CachePresent budget = conv(before, "CONV evict entry=7 bytes=1048576 reason=budget id=2");
    CHECK(budget.evicted_budget == 2);
    CHECK(conv(before, "CONV lost conv=2 reason=budget id=2").lost == 2);
    // The outgoing copy that was never parked, and an older one that was.
    CHECK(conv(before, "CONV supersede conv=2 tokens=9 id=2").superseded == 2);
    CHECK(conv(before, "CONV supersede entry=7 bytes=1048576 id=2").superseded == 2);
    CHECK(evicted.bytes == before.bytes);  // an older engine: its next DONE says it
}

TEST_CASE("A pressure event says what is parked and what is kept for the live one") {
    const CachePresent present = pressure(
        started(),
        "PRESSURE available_before_mib=100 available_after_mib=152 released_dialogs=2 "
        "released_mib=52 retained_mib=12 parked=1 held=50331647 retained=0 where=idle exhausted=0");
    CHECK(present.parked == 1);
    CHECK(present.retained == 0);
    CHECK(present.bytes == 50331647);
    CHECK(present.available_mib == 152);
}

TEST_CASE("The end of the list says what is parked and held") {
    const CachePresent two = after(started(), protocol::HeldFigures{2, {}, {}}, kLater);
    CHECK(two.parked == 2);
    CHECK(two.bytes == 104857600);
    CHECK(two.as_of_s == kLater);
    const CachePresent none = after(CachePresent{}, protocol::HeldFigures{0, 0, 0}, kLater);
    CHECK(none.parked == 0);
    CHECK(none.bytes == 0);
    CHECK(none.parked_bytes() == 0);
}

TEST_CASE("Nobody is live from the park of the last one until the next one is about to be read") {
    const auto resume = [](const CachePresent& present, const std::string& line) {
        return after(present, std::get<protocol::ResumeLine>(*protocol::parse_event(line)), kLater);
    };
    CachePresent present = resume(CachePresent{}, "RESUME 0 id=1 source=cold conv=1");
    CHECK(present.live_conv == 1U);
    CHECK_FALSE(present.as_of_s);  // of figures, of which it says none
    // An image that was brought back has become the live one's when reading begins.
    const CachePresent read =
        resume(present, "RESUME 9 id=1 source=parked conv=1 parked=2 held=500 retained=40");
    CHECK(read.parked == 2);
    CHECK(read.bytes == 500);
    CHECK(read.retained == 40);
    CHECK(read.as_of_s == kLater);
    for (const char* leaves :
         {"CONV park entry=8 conv=1 tokens=9 bytes=5 id=2", "CONV skip conv=1 reason=floor id=2",
          "CONV lost conv=1 reason=budget id=2", "CONV supersede conv=1 tokens=9 id=2"}) {
        INFO(leaves);
        CHECK_FALSE(conv(present, leaves).live_conv);
    }
    for (const char* stays :
         {"CONV park entry=8 conv=3 tokens=9 bytes=5 id=2",  // a branch that was left behind
          "CONV supersede entry=7 conv=1 bytes=5 id=2", "CONV evict entry=7 conv=1 bytes=5 id=2",
          "CONV borrow entry=7 conv=2 id=2", "CONV drop entry=7 conv=1 reason=command"}) {
        INFO(stays);
        CHECK(conv(present, stays).live_conv == 1U);
    }
    present = conv(present, "CONV park entry=8 conv=1 tokens=9 bytes=5 id=2");
    CHECK(conv(present, "CONV restore entry=7 conv=2 id=2").live_conv == 2U);
    CHECK(resume(present, "RESUME 0 id=2 source=cold conv=2").live_conv == 2U);
    // An older engine says it with DONE alone.
    CHECK_FALSE(resume(present, "RESUME 0 id=2 source=cold").live_conv);
    const auto done = done_of("DONE 1 50 1.0 1.0 stop 0 0 0 0 0 0 0 0 50 1 0 1 900 2 id=2 conv=2");
    CHECK(after(present, done, kLater).live_conv == 2U);
    // One that ended before its plan changed nobody.
    const auto left = done_of("DONE 0 50 0.0 0.0 cancel 0 0 0 0 0 0 0 0 0 id=3");
    CHECK(after(after(present, done, kLater), left, kLater).live_conv == 2U);
}

TEST_CASE("What no line has said stays unknown") {
    const CachePresent nothing;
    CHECK(conv(nothing, "CONV release entry=7 bytes=5") == nothing);
    const CachePresent parked = pressure(nothing, "PRESSURE parked=1 retained_mib=3 where=idle");
    CHECK(parked.parked == 1);
    CHECK_FALSE(parked.bytes);
    CHECK_FALSE(parked.retained);
    CHECK_FALSE(parked.released);
    CHECK_FALSE(after(nothing, protocol::HeldFigures{0, {}, {}}, kLater).bytes);
}

TEST_CASE("The page and Prometheus show the same present") {
    MonitorStory story(0);
    story.monitor.on_ticket_done({1, 1}, done_of(kDone));
    story.monitor.on_conversation(1, conv_of("CONV release entry=7 bytes=20971520 parked=2 "
                                             "held=83886080 retained=12582913"));
    story.monitor.on_pressure(
        1, pressure_of("PRESSURE available_after_mib=90 released_dialogs=1 released_mib=32 "
                       "retained_mib=12 parked=2 held=71303167 retained=0 where=idle "
                       "exhausted=0"));
    MetricsInput input;
    input.engine.state = EngineState::ready;
    input.engine.epoch = 1;
    input.cache.enabled = true;
    const auto cache = conversation_cache_json(input.engine, story.monitor.history(),
                                               story.monitor.watch(), input.cache);
    const std::int64_t held = 71303167;
    CHECK(cache.at("parked").to_number<int>() == 2);
    CHECK(cache.at("bytes").to_number<std::int64_t>() == held);
    CHECK(cache.at("retained_bytes").to_number<int>() == 0);
    CHECK(cache.at("released").to_number<int>() == 5);
    CHECK(cache.at("available_bytes").to_number<std::int64_t>() == 90 * kMiB);
    const std::string page = prometheus_text(input, story.monitor, "m");
    CHECK(page.find("strata:conversation_parked{model_name=\"m\"} 2\n") != std::string::npos);
    CHECK(page.find("strata:conversation_bytes{model_name=\"m\",kind=\"parked\"} " +
                    std::to_string(held) + "\n") != std::string::npos);
    CHECK(page.find("strata:conversation_bytes{model_name=\"m\",kind=\"retained\"} 0\n") !=
          std::string::npos);
}

TEST_CASE("A cache that is off has no series") {
    MonitorStory story(0);
    story.simple(1, 100, 90, true, true);
    MetricsInput input;
    input.engine.state = EngineState::ready;
    input.engine.epoch = 1;
    input.engine.info = *protocol::parse_info_line("INFO conversation_cache_mib=0");
    input.cache.enabled = true;  // asked for, and the engine says that it is off
    const std::string page = prometheus_text(input, story.monitor, "m");
    for (const char* name :
         {"strata:conversation_", "strata:park_seconds", "strata:restore_seconds",
          "strata:pressure_events_total", "strata:host_floor_bytes"}) {
        INFO(name);
        CHECK(page.find(name) == std::string::npos);
    }
    CHECK(page.find("vllm:prompt_tokens_total") != std::string::npos);
    CHECK(page.find("strata:ttft_seconds_count") != std::string::npos);
}

}  // namespace strata::serve::tests
