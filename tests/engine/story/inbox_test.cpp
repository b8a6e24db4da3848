// Lines between the reader thread and the main loop: order, what never waits, and what a STOP
// reaches.
#include <thread>

#include <catch2/catch.hpp>

#include "engine/command_inbox.hpp"

namespace strata {
namespace {

using std::chrono::milliseconds;

struct Box {
    std::shared_ptr<StopBoard> board = std::make_shared<StopBoard>();
    CommandInbox inbox{board};

    bool take(std::string_view lines) { return inbox.take(lines); }
    bool stopped(std::uint64_t id) const {
        const bool out = *board->begin(id);
        board->end();
        return out;
    }
};

template <class T>
const T* as(const std::optional<ReceivedLine>& line) {
    if (!line) return nullptr;
    const auto* command = std::get_if<protocol::Command>(&line->what);
    return command == nullptr ? nullptr : std::get_if<T>(command);
}

}  // namespace

TEST_CASE("lines come out in their order whatever the cuts and bad ones as errors") {
    Box box;
    for (const char c : std::string_view("PING 1\nHELLO\n\nGEN 1 id=4 ids=5\n")) {
        CHECK(box.take({&c, 1}));
    }
    const auto ping = box.inbox.next();
    REQUIRE(as<protocol::PingCommand>(ping));
    CHECK(as<protocol::PingCommand>(ping)->n == 1);
    const auto bad = box.inbox.next();
    REQUIRE(bad);
    CHECK(std::get<protocol::ParseError>(bad->what).code == protocol::ErrCode::bad_line);
    const auto gen = box.inbox.next();
    REQUIRE(as<protocol::GenCommand>(gen));
    CHECK(as<protocol::GenCommand>(gen)->id == 4);
    CHECK_FALSE(box.inbox.next());
}

TEST_CASE("a stop reaches a request that waits and no other") {
    Box box;
    box.take("GEN 1 id=4 ids=5\nGEN 1 id=5 ids=5\nSTOP id=5\nSTOP id=77\n");
    CHECK_FALSE(box.stopped(4));
    CHECK(box.stopped(5));
    CHECK_FALSE(box.stopped(77));
}

TEST_CASE("a stop without an id reaches the request that came first") {
    Box box;
    box.take("GEN 1 id=4 ids=5\nGEN 1 id=5 ids=5\nSTOP\n");
    CHECK(box.stopped(4));
    CHECK_FALSE(box.stopped(5));
}

TEST_CASE("a request that was refused is no longer there to be stopped") {
    Box box;
    box.take("GEN 1 id=4 ids=5\n");
    const auto running = box.board->begin(4);
    box.take("GEN 1 id=4 ids=5\n");  // the same id again, while the first one runs
    box.board->forget(4);
    CHECK_FALSE(*running);
    box.take("STOP id=4\n");
    CHECK(*running);
    box.board->end();
    box.take("STOP id=4\n");
    CHECK_FALSE(box.stopped(4));
}

TEST_CASE("after QUIT everything counts as stopped and nothing more is taken") {
    Box box;
    box.take("GEN 1 id=4 ids=5\n");
    CHECK_FALSE(box.take("QUIT\nPING 3\n"));
    CHECK_FALSE(box.inbox.closed_and_empty());
    CHECK(as<protocol::GenCommand>(box.inbox.next()));
    CHECK(box.inbox.closed_and_empty());
    CHECK_FALSE(box.inbox.wait_next(std::nullopt));
    CHECK(box.stopped(4));
    CHECK(box.stopped(9));
}

TEST_CASE("waiting ends when a line comes or the time is over or the inbox closes") {
    Box box;
    CHECK_FALSE(box.inbox.wait_next(milliseconds(5)));
    std::thread reader([&] {
        std::this_thread::sleep_for(milliseconds(20));
        box.take("PING 1\n");
        std::this_thread::sleep_for(milliseconds(20));
        box.inbox.close();
    });
    CHECK(as<protocol::PingCommand>(box.inbox.wait_next(std::nullopt)));
    CHECK_FALSE(box.inbox.wait_next(std::nullopt));
    reader.join();
}

TEST_CASE("an alarm ends a wait once and takes no line with it") {
    Box box;
    std::thread reader([&] {
        std::this_thread::sleep_for(milliseconds(20));
        box.inbox.alarm();
    });
    CHECK_FALSE(box.inbox.wait_next(std::nullopt));
    reader.join();
    CHECK(box.inbox.take_alarm());
    CHECK_FALSE(box.inbox.take_alarm());
    box.take("PING 1\n");
    CHECK(as<protocol::PingCommand>(box.inbox.wait_next(std::nullopt)));
}

TEST_CASE("a flood of lines is held back") {
    Box box;
    std::size_t taken = 0;
    while (box.inbox.has_room() && taken < 100'000) {
        box.take("PING 1\n");
        ++taken;
    }
    CHECK(taken < 100'000);
    (void)box.inbox.next();
    CHECK(box.inbox.has_room());
}

}  // namespace strata
