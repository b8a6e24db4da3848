// DONE: the worked example, the positions one by one, and what older and newer writers leave out or
// add.
#include "protocol/done_line.hpp"

#include <string>
#include <string_view>

#include <catch2/catch.hpp>

namespace strata::protocol {
namespace {

constexpr std::string_view kWorked =
    "DONE 128 32109 412.0 1490.7 stop 0 0 32063 0 0 0 0 0 46 1 1 3 3612344320 2 id=17 conv=4 "
    "source=parked miss=none park_ms=41.2 restore_ms=23.9";
constexpr std::string_view kFourteen = "DONE 1 2 3.5 4.5 length 6 7 8 9 10 11 12 13 14";
constexpr std::string_view kNineteen =
    "DONE 1 2 3.5 4.5 length 6 7 8 9 10 11 12 13 14 1 0 17 18 19";

DoneLine worked() {
    DoneLine done;
    done.generated = 128;
    done.prompt_tokens = 32109;
    done.prompt_ms = 412;
    done.decode_ms = 1490.7;
    done.finish = Finish::stop;
    done.reused = 32063;
    done.prompt_read = 46;
    done.cache_fields = CacheFields{true, true, 3, 3612344320, 2};
    done.id = 17;
    done.conv = 4;
    done.source = PromptSource::parked;
    done.miss = MissReason::none;
    done.park_ms = 41.2;
    done.restore_ms = 23.9;
    return done;
}

DoneLine counted() {
    DoneLine done;
    done.generated = 1;
    done.prompt_tokens = 2;
    done.prompt_ms = 3.5;
    done.decode_ms = 4.5;
    done.finish = Finish::length;
    done.drafts_accepted = 6;
    done.drafts_offered = 7;
    done.reused = 8;
    done.expert_hits = 9;
    done.expert_lookups = 10;
    done.experts_from_ram = 11;
    done.experts_from_file = 12;
    done.file_mb = 13;
    done.prompt_read = 14;
    return done;
}

DoneLine read(std::string_view line) {
    const Parsed<DoneLine> parsed = parse_done_line(line);
    INFO(line);
    if (!parsed) FAIL(parsed.error().text);
    return *parsed;
}

}  // namespace

TEST_CASE("the worked example of DONE is written and read") {
    CHECK(format(worked()) == kWorked);
    CHECK(read(kWorked) == worked());
}

TEST_CASE("each of the fourteen fields has its own place") {
    CHECK(read(kFourteen) == counted());
    CHECK(format(counted()) == std::string(kFourteen) + " id=0");
}

TEST_CASE("the conversation fields follow as fifteen to nineteen") {
    DoneLine done = counted();
    done.cache_fields = CacheFields{true, false, 17, 18, 19};
    CHECK(read(kNineteen) == done);
    CHECK(format(done) == std::string(kNineteen) + " id=0");
}

TEST_CASE("every name of DONE is written in its order and read back") {
    DoneLine done = counted();
    done.cache_fields = CacheFields{true, false, 1, 2, 3};
    done.id = 5;
    done.conv = 6;
    done.label = "chat-1";
    done.stop_id = 151645;
    done.source = PromptSource::parked_checkpoint;
    done.miss = MissReason::unseen;
    done.common = 7;
    done.park_ms = 1.5;
    done.restore_ms = 2.5;
    done.queue_ms = 3.5;
    done.parked_now = false;
    done.park_skip = ParkSkip::unknown_reading;
    done.retained = 8;
    done.superseded = 9;
    done.released = 10;
    done.lost = 11;
    done.evicted_budget = 12;
    done.evicted_slots = 13;
    done.checkpoints = 14;
    done.available_mib = 15;
    done.logits_sha256 = "aa";
    done.state_sha256 = "bb";
    const std::string line =
        "DONE 1 2 3.5 4.5 length 6 7 8 9 10 11 12 13 14 1 0 1 2 3 id=5 conv=6 label=chat-1 "
        "stop_id=151645 source=parked_checkpoint miss=new common=7 park_ms=1.5 restore_ms=2.5 "
        "queue_ms=3.5 parked_now=0 park_skip=unknown_reading retained=8 superseded=9 released=10 "
        "lost=11 evicted_budget=12 evicted_slots=13 checkpoints=14 available_mib=15 "
        "logits_sha256=aa state_sha256=bb";
    CHECK(format(done) == line);
    CHECK(read(line) == done);
}

TEST_CASE("DONE with thirteen to twenty-five fields means the same facts") {
    const std::string tail = " id=7 source=live";
    const std::string_view more[] = {"1",  "0",   "17",   "18", "19", "x",
                                     "-1", "nan", "1e99", "22", "23"};
    std::string line(kFourteen);
    CHECK_FALSE(parse_done_line(line.substr(0, line.rfind(' ')) + tail).ok());
    DoneLine expected = counted();
    expected.id = 7;
    expected.source = PromptSource::live;
    CHECK(read(line + tail) == expected);
    std::size_t count = 14;
    for (const std::string_view field : more) {
        line.append(" ").append(field);
        ++count;
        INFO(count << " fields");
        if (count >= 19) expected.cache_fields = CacheFields{true, false, 17, 18, 19};
        CHECK(read(line + tail) == expected);
    }
    CHECK(count == 25);
}

TEST_CASE("DONE passes over unknown names and unknown words") {
    DoneLine done =
        read(std::string(kNineteen) + " id=3 mood=good source=moon miss=moon park_skip=moon");
    CHECK(done.id == 3);
    CHECK_FALSE(done.source.has_value());
    CHECK_FALSE(done.miss.has_value());
    CHECK_FALSE(done.park_skip.has_value());
}

TEST_CASE("a DONE that is cut anywhere before its last fixed field is refused") {
    const std::string line(kFourteen);
    for (std::size_t n = 0; n < line.size() - 2; ++n) {
        INFO(line.substr(0, n));
        CHECK_FALSE(parse_done_line(line.substr(0, n)).ok());
    }
}

TEST_CASE("DONE refuses what is no number in any of its fields") {
    for (const std::string_view bad : {"-1", "nan", "inf", "x", "1x", "0x1", "+1",
                                       "99999999999999999999", "1e999", "stop", "1,5"}) {
        for (int field = 1; field <= 19; ++field) {
            if (field == 5) continue;
            std::string line = "DONE";
            for (int at = 1; at <= 19; ++at) {
                line += ' ';
                line += at == field ? bad : at == 5 ? "stop" : "1";
            }
            const bool real = field == 3 || field == 4 || field == 13;
            if (real && bad == "99999999999999999999") continue;  // a large real is a real
            INFO(line);
            const Parsed<DoneLine> parsed = parse_done_line(line + " id=9");
            REQUIRE_FALSE(parsed.ok());
            CHECK(parsed.error().code == ErrCode::bad_field);
            CHECK(parsed.error().id == 9);
        }
    }
}

TEST_CASE("DONE refuses a finish that nobody knows") {
    const Parsed<DoneLine> parsed = parse_done_line("DONE 1 2 3 4 gone 0 0 0 0 0 0 0 0 0 id=2");
    REQUIRE_FALSE(parsed.ok());
    CHECK(parsed.error().code == ErrCode::bad_field);
    CHECK(parsed.error().text.find("finish") != std::string::npos);
}

}  // namespace strata::protocol
