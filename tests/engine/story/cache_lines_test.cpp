// The words of the conversation cache's lines, as PROTOCOL.md and DETAILS.md give them.
#include "engine/cache_lines.hpp"

#include <memory>

#include <catch2/catch.hpp>

using namespace strata;

namespace {

ConversationEvent parked_event() {
    ConversationEvent event;
    event.step = ConversationStep::park;
    event.entry = 7;
    event.conversation = 3;
    event.tokens = 32109;
    event.bytes = 1048576;
    event.shared_bytes = 4096;
    event.ms = 41.2;
    event.label = "chat-a";
    event.parked = 2;
    event.held_bytes = 2287001600;
    event.retained_bytes = 8192;
    return event;
}

}  // namespace

TEST_CASE("a park is told with its figures on stderr and as CONV") {
    const ConversationEvent event = parked_event();
    CHECK(event_text(event) ==
          "conversation cache: parked 32109 tokens in 41 ms; parked=2 bytes=2287001600 evictions=0 "
          "new_bytes=1048576 shared_bytes=4096");
    CHECK(protocol::format(conv_line(event, 17)) ==
          "CONV park entry=7 conv=3 tokens=32109 bytes=1048576 ms=41.2 id=17 label=chat-a "
          "parked=2 held=2287001600 retained=8192");
}

TEST_CASE("a restore says whether it took the end or a checkpoint") {
    ConversationEvent event = parked_event();
    event.step = ConversationStep::restore;
    event.tokens = 64047;
    event.ms = 24.0;
    event.parked = 1;
    event.took_end = true;
    CHECK(event_text(event) ==
          "conversation cache: restored 64047 tokens (parked) in 24 ms; parked=1 bytes=2287001600");
    event.took_end = false;
    CHECK(event_text(event)->find("64047 tokens (parked_checkpoint) in") != std::string::npos);
}

TEST_CASE("a borrow says that the donor stays") {
    ConversationEvent event = parked_event();
    event.step = ConversationStep::borrow;
    event.tokens = 2998;
    event.ms = 3.0;
    event.parked = 3;
    CHECK(
        event_text(event) ==
        "conversation cache: borrowed 2998 tokens from a parked conversation, which stays parked, "
        "in 3 ms; parked=3 bytes=2287001600");
}

TEST_CASE("a superseded copy and a skip have their own lines") {
    ConversationEvent event = parked_event();
    event.step = ConversationStep::supersede;
    CHECK(event_text(event) == "conversation cache: dropped 1 superseded copy; parked=2");
    event.step = ConversationStep::skip;
    event.skip = ParkSkip::budget;
    event.needed_bytes = std::uint64_t{423} << 20;
    event.free_bytes = std::uint64_t{20} << 20;
    event.budget_bytes = std::uint64_t{450} << 20;
    CHECK(event_text(event) ==
          "conversation cache: skip parking (needs 423 MiB, 20 MiB of 450 MiB available)");
    event.skip = ParkSkip::floor;
    CHECK(event_text(event) == "conversation cache: skip parking (floor)");
    event.available_bytes = std::uint64_t{10300} << 20;
    event.floor_bytes = std::uint64_t{10240} << 20;
    CHECK(event_text(event) ==
          "conversation cache: skip parking (floor: needs 423 MiB above 10240 MiB, 10300 MiB "
          "available)");
    CHECK(conv_line(event, std::nullopt).reason == protocol::ConvReason::floor);
    CHECK_FALSE(conv_line(event, std::nullopt).id);
}

TEST_CASE("a release is told to the server and left to the pressure line on stderr") {
    ConversationEvent event = parked_event();
    event.step = ConversationStep::release;
    event.removal = Removal::released;
    CHECK_FALSE(event_text(event));
    CHECK(conv_line(event, std::nullopt).kind == protocol::ConvKind::release);
    CHECK_FALSE(conv_line(event, std::nullopt).reason);
}

TEST_CASE("a row of the list says what the entry is") {
    ConversationImage image;
    image.conversation = 5;
    image.label = "chat-b";
    image.ids = std::make_shared<const TokenIds>(TokenIds(300, 1));
    image.identity.steering = "calm";
    image.checkpoints.resize(2);
    ParkedEntry entry;
    entry.entry = 9;
    entry.image = std::make_shared<const ConversationImage>(image);
    entry.bytes = 5000;
    entry.hits = 4;
    entry.pinned = true;
    entry.active_ms = 10'000;
    CHECK(protocol::format(cache_row_line(entry, 3000, 17'900)) ==
          "CACHE entry=9 conv=5 tokens=300 bytes=5000 unique_bytes=3000 checkpoints=2 last_used=7 "
          "hits=4 pinned=1 steer=calm where=ram label=chat-b");
}

TEST_CASE("a pressure event carries the figures of its stderr line") {
    PressureReport report;
    report.where = PressureWhere::idle;
    report.event = true;
    report.before_bytes = std::uint64_t{9761} << 20;
    report.after_bytes = std::uint64_t{11901} << 20;
    report.floor_bytes = std::uint64_t{10240} << 20;
    report.hysteresis_bytes = std::uint64_t{1024} << 20;
    report.released_dialogs = 2;
    report.dialog_bytes = std::uint64_t{2180} << 20;
    report.parked = 1;
    report.held_bytes = 70000;
    report.kept_bytes = 300;
    CHECK(protocol::format(pressure_line(report, 131.0)) ==
          "PRESSURE available_before_mib=9761 available_after_mib=11901 floor_mib=10240 "
          "target_mib=11264 released_dialogs=2 released_mib=2180 retained_mib=0 "
          "lane_checkpoints_mib=0 ms=131.0 parked=1 held=70000 retained=300 where=idle "
          "exhausted=0");
    report.after_bytes.reset();
    CHECK_FALSE(pressure_line(report, 1).available_after_mib);
}
