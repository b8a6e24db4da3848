// Events as the specification spells them: the exact line for a struct and the struct for a line.
#include <limits>
#include <string>
#include <string_view>

#include <catch2/catch.hpp>

#include "protocol/event.hpp"

namespace strata::protocol {
namespace {

struct Golden {
    std::string_view line;
    Event meaning;
};

void check(const Golden& golden) {
    INFO(golden.line);
    CHECK(format(golden.meaning) == golden.line);
    const Parsed<Event> read = parse_event(golden.line);
    if (!read) FAIL(read.error().text);
    CHECK(*read == golden.meaning);
}

template <class Line>
Line read_as(std::string_view line) {
    const Parsed<Event> read = parse_event(line);
    INFO(line);
    if (!read) FAIL(read.error().text);
    return std::get<Line>(*read);
}

InfoLine full_info() {
    InfoLine info;
    info.protocol = 1;
    info.context_tokens = 32768;
    info.vocab = 4096;
    info.kv = "f16";
    info.page_tokens = 256;
    info.spec = "off";
    info.batch = 1;
    info.vram_free_mib = 0;
    info.device = "cpu";
    info.weights_mib = 12;
    info.arch = "qwen35";
    info.quant = "Q8_0";
    info.prompt_cache = 6;
    info.prompt_cache_every = 16384;
    info.prompt_cache_root = 2048;
    info.conversation_cache_mib = 512;
    info.conversation_cache_slots = 4;
    info.conversation_cache_min_free_mib = 2560;
    info.memory_limit_mib = 0;
    info.device_pool_mib = 0;
    info.kv_bytes_per_token = 4096;
    info.state_bytes = 65536;
    info.model_id = "0a1b";
    info.engine = "0.1.0";
    info.steer = "";
    return info;
}

}  // namespace

TEST_CASE("events of start and load are written and read as their golden lines") {
    check({"INFO", InfoLine{}});
    check(
        {"INFO protocol=1 context=32768 vocab=4096 kv=f16 page_tokens=256 spec=off batch=1 "
         "vram_free_mib=0 device=cpu weights_mib=12 arch=qwen35 quant=Q8_0 prompt_cache=6 "
         "prompt_cache_every=16384 prompt_cache_root=2048 conversation_cache_mib=512 "
         "conversation_cache_slots=4 conversation_cache_min_free_mib=2560 memory_limit_mib=0 "
         "device_pool_mib=0 kv_bytes_per_token=4096 state_bytes=65536 model_id=0a1b engine=0.1.0 "
         "steer=0",
         full_info()});
    check({"LOAD 1048576 18446744073709551615", LoadLine{1048576, 18446744073709551615ULL}});
    check({"READY 32768 stop id cache ping batch=1",
           ReadyLine{32768, {.stop = true, .id = true, .cache_list = true, .ping = true}, 1}});
    check({"READY 512 stop id sessions grammar",
           ReadyLine{512, {.stop = true, .id = true, .sessions = true, .grammar = true}, {}}});
}

TEST_CASE("events of a request are written and read as their golden lines") {
    check({"RESUME 32063 id=17 source=parked conv=4 parked=1 held=70 retained=9",
           ResumeLine{32063, 17, PromptSource::parked, 4, {1, 70, 9}}});
    check({"RESUME 0 id=1 source=cold", ResumeLine{0, 1, PromptSource::cold, {}, {}}});
    check({"PP 512 32109 40.5 12641.9 id=17", ProgressLine{512, 32109, 40.5, 12641.9, 17}});
    check({"T 42 id=17", TokenLine{42, 17, {}, {}}});
    check({"T 42 id=17 lp=-0.25 top=42:-0.25,7:-1.5",
           TokenLine{42, 17, -0.25F, {{42, -0.25F}, {7, -1.5F}}}});
    check(
        {"CONV park entry=2 conv=4 tokens=32109 bytes=2287001600 ms=41.2 id=17 label=chat-1 "
         "parked=3 held=4574003200 retained=0",
         ConvLine{
             ConvKind::park, 2, 4, 32109, 2287001600, 41.2, 17, {}, "chat-1", {3, 4574003200, 0}}});
    check({"CONV skip conv=4 id=17 reason=too_large",
           ConvLine{ConvKind::skip, {}, 4, {}, {}, {}, 17, ConvReason::too_large, "", {}}});
    check({"ERR busy id=18 text=a request runs",
           ErrLine{ErrCode::busy, 18, false, "a request runs"}});
    check(
        {"ERR device_lost id=0 fatal=1 text=line one\\nline two \\\\ back\\x00",
         ErrLine{ErrCode::device_lost, 0, true, std::string("line one\nline two \\ back\0", 25)}});
}

TEST_CASE("events of the conversation cache and sessions match their golden lines") {
    CacheRow row;
    row.entry = 2;
    row.conv = 4;
    row.tokens = 32109;
    row.bytes = 100;
    row.unique_bytes = 60;
    row.checkpoints = 3;
    row.last_used = 12;
    row.hits = 1;
    row.pinned = true;
    row.steer = "";
    row.where = EntryPlace::ram;
    row.label = "chat-1";
    check(
        {"CACHE entry=2 conv=4 tokens=32109 bytes=100 unique_bytes=60 checkpoints=3 last_used=12 "
         "hits=1 pinned=1 steer=off where=ram label=chat-1",
         CacheLine{row, {}}});
    check({"CACHE end", CacheLine{}});
    check({"CACHE end parked=1 held=100 retained=40", CacheLine{{}, {1, 100, 40}}});
    check(
        {"PRESSURE available_before_mib=9761 available_after_mib=11901 floor_mib=10240 "
         "target_mib=11264 released_dialogs=2 released_mib=2180 retained_mib=0 "
         "lane_checkpoints_mib=0 ms=131.0 parked=1 held=500 retained=0 where=idle exhausted=0",
         PressureLine{9761,
                      11901,
                      10240,
                      11264,
                      2,
                      2180,
                      0,
                      0,
                      131,
                      {1, 500, 0},
                      PressureWhere::idle,
                      false}});
    check({"PONG 12", PongLine{12}});
    check({"SAVED 32109 2287001600 812.5", SavedLine{32109, 2287001600, 812.5}});
    check({"RESTORED 32109 2287001600 400.0", RestoredLine{32109, 2287001600, 400}});
    check({"SERR file text=cannot open '/x y': no such file",
           SessionErrorLine{SessionFault::file, "cannot open '/x y': no such file"}});
}

TEST_CASE("a missing name is absent and not zero") {
    const InfoLine info = read_as<InfoLine>("INFO protocol=1");
    CHECK(info.protocol == 1);
    CHECK_FALSE(info.context_tokens.has_value());
    CHECK_FALSE(info.steer.has_value());
    CHECK_FALSE(read_as<ReadyLine>("READY 512").batch.has_value());
    CHECK_FALSE(read_as<TokenLine>("T 5 id=1").lp.has_value());
    CHECK_FALSE(read_as<PressureLine>("PRESSURE where=idle").exhausted.has_value());
    CHECK_FALSE(read_as<CacheLine>("CACHE entry=1").row->pinned.has_value());
}

TEST_CASE("words and fields of a newer engine are passed over") {
    const ReadyLine ready = read_as<ReadyLine>("READY 512 stop telepathy ping batch=2 lanes=9");
    CHECK(ready.can == Capabilities{.stop = true, .ping = true});
    CHECK(ready.batch == 2);
    CHECK_FALSE(read_as<ResumeLine>("RESUME 4 id=1 source=moon").source.has_value());
    CHECK(read_as<ProgressLine>("PP 1 2 3.0 4.0 99 98 id=5 more=1").id == 5);
    CHECK(read_as<TokenLine>("T 5 6 id=1").token == 5);
    CHECK(read_as<PongLine>("PONG 3 x=y").n == 3);
}

TEST_CASE("a refusal with an unknown code is still a refusal") {
    const ErrLine err = read_as<ErrLine>("ERR too_hot id=9 text=cool down");
    CHECK(err.code == ErrCode::internal);
    CHECK(err.id == 9);
    CHECK(err.text == "cool down");
    CHECK(read_as<SessionErrorLine>("SERR moon text=x").kind == SessionFault::other);
}

TEST_CASE("a second INFO changes only what it names") {
    InfoLine update;
    update.vram_free_mib = 100;
    update.steer = "calm";
    const InfoLine now = merged(full_info(), update);
    InfoLine expected = full_info();
    expected.vram_free_mib = 100;
    expected.steer = "calm";
    CHECK(now == expected);
}

TEST_CASE("a value cannot break its line") {
    InfoLine info;
    info.device = "NVIDIA H200\n80 GB";
    info.arch = std::string(1000, 'a');
    const std::string line = format(info);
    CHECK(line == "INFO device=NVIDIA_H200_80_GB arch=" + std::string(256, 'a'));
    CHECK(parse_event(line).ok());
}

TEST_CASE("figures that are no numbers are written as zero") {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
    CHECK(format(ProgressLine{1, 2, kNan, kInfinity, 3}) == "PP 1 2 0.0 0.0 id=3");
    CHECK(format(ProgressLine{1, 2, -4.0, -0.0, 3}) == "PP 1 2 0.0 0.0 id=3");
}

TEST_CASE("a probability of zero still makes a line that reads back") {
    TokenLine line;
    line.lp = -std::numeric_limits<float>::infinity();
    const auto read = read_as<TokenLine>(format(line));
    REQUIRE(read.lp.has_value());
    CHECK(*read.lp == std::numeric_limits<float>::lowest());
}

TEST_CASE("the longest T line that is written fits its limit") {
    TokenLine line;
    line.token = 2147483647;
    line.id = 18446744073709551615ULL;
    line.lp = -1.17549435e-38F;
    line.top.assign(kTopLogprobsMax, {2147483647, -1.17549435e-38F});
    const std::string text = format(line);
    CHECK(text.size() <= kTokenLineBytesMax);
    CHECK(read_as<TokenLine>(text) == line);
}

TEST_CASE("a long error text is cut between characters") {
    ErrLine err;
    err.text = std::string(4095, 'x') + "\xC3\xB6 and more";
    const ErrLine read = read_as<ErrLine>(format(err));
    CHECK(read.text == std::string(4095, 'x'));
}

}  // namespace strata::protocol
