// The thread that reads stdin: bytes in order, back-pressure, the four ends, and the guard of the
// exit.
#include "engine/host/input_pump.hpp"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <string>

#include <catch2/catch.hpp>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace strata {
namespace {

using Ms = std::chrono::milliseconds;

// What a pump called, to be waited for.
class Heard {
  public:
    InputPumpCalls calls(Ms grace = Ms(60'000)) {
        InputPumpCalls calls;
        calls.take = [this](std::string_view bytes) {
            const std::lock_guard lock(mutex_);
            text_ += bytes;
            changed_.notify_all();
            return text_.find("quit") == std::string::npos;
        };
        calls.has_room = [this] {
            const std::lock_guard lock(mutex_);
            return room_;
        };
        calls.ended = [this](InputEnd end) {
            const std::lock_guard lock(mutex_);
            end_ = end;
            ++ends_;
            changed_.notify_all();
        };
        grace_ = grace;
        calls.grace = [this](InputEnd) {
            const std::lock_guard lock(mutex_);
            return grace_;
        };
        calls.alarmed = [this] {
            const std::lock_guard lock(mutex_);
            ++alarms_;
            changed_.notify_all();
        };
        calls.overdue = [this] {
            const std::lock_guard lock(mutex_);
            overdue_ = true;
            changed_.notify_all();
        };
        return calls;
    }
    template <class Condition>
    bool await(Condition condition, Ms limit = Ms(5000)) {
        std::unique_lock lock(mutex_);
        return changed_.wait_for(lock, limit, [&] { return condition(*this); });
    }
    void set_room(bool room) {
        const std::lock_guard lock(mutex_);
        room_ = room;
    }
    void set_grace(Ms grace) {
        const std::lock_guard lock(mutex_);
        grace_ = grace;
    }
    const std::string& text() const { return text_; }
    std::optional<InputEnd> end() const { return end_; }
    bool overdue() const { return overdue_; }
    int ends() const { return ends_; }
    int alarms() const { return alarms_; }

  private:
    std::mutex mutex_;
    std::condition_variable changed_;
    std::string text_;
    std::optional<InputEnd> end_;
    Ms grace_{0};
    int ends_ = 0;
    int alarms_ = 0;
    bool overdue_ = false;
    bool room_ = true;
};

struct Pipes {
    Pipes() {
        REQUIRE(::pipe(input) == 0);
        signals = ::eventfd(0, EFD_CLOEXEC);
    }
    ~Pipes() {
        ::close(input[0]);
        hang_up();
        ::close(signals);
    }
    void write(std::string_view text) const {
        REQUIRE(::write(input[1], text.data(), text.size()) == static_cast<ssize_t>(text.size()));
    }
    void hang_up() {
        if (input[1] >= 0) ::close(input[1]);
        input[1] = -1;
    }
    void raise() const {
        const std::uint64_t one = 1;
        REQUIRE(::write(signals, &one, sizeof one) == sizeof one);
    }
    int input[2];
    int signals = -1;
};

// A descriptor that has POLLPRI when it is told to: urgent data on a connection to oneself.
struct Trigger {
    Trigger() {
        const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        sockaddr_in here{};
        here.sin_family = AF_INET;
        here.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        socklen_t size = sizeof here;
        auto* address = reinterpret_cast<sockaddr*>(&here);
        REQUIRE(::bind(listener, address, size) == 0);
        REQUIRE(::listen(listener, 1) == 0);
        REQUIRE(::getsockname(listener, address, &size) == 0);
        writer = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        REQUIRE(::connect(writer, address, size) == 0);
        reader = ::accept(listener, nullptr, nullptr);
        REQUIRE(reader >= 0);
        ::close(listener);
    }
    ~Trigger() {
        ::close(writer);
        ::close(reader);
    }
    void fire() const { REQUIRE(::send(writer, "!", 1, MSG_OOB) == 1); }
    int writer = -1;
    int reader = -1;
};

auto ended_by(InputEnd end) {
    return [end](const Heard& heard) { return heard.end() == end; };
}

}  // namespace

TEST_CASE("bytes are handed on as they come and the end of input ends the pump") {
    Pipes pipes;
    Heard heard;
    const InputPump pump(pipes.input[0], pipes.signals, 0, heard.calls());
    pipes.write("one ");
    CHECK(heard.await([](const Heard& h) { return h.text() == "one "; }));
    pipes.write("two");
    pipes.hang_up();
    CHECK(heard.await(ended_by(InputEnd::closed)));
    CHECK(heard.text() == "one two");
}

TEST_CASE("a trigger that fires is told and input goes on") {
    Pipes pipes;
    const Trigger trigger;
    Heard heard;
    const InputPump pump(pipes.input[0], pipes.signals, 0, heard.calls(), trigger.reader);
    pipes.write("one ");
    CHECK(heard.await([](const Heard& h) { return h.text() == "one "; }));
    CHECK(heard.alarms() == 0);
    trigger.fire();
    CHECK(heard.await([](const Heard& h) { return h.alarms() > 0; }));
    pipes.write("two");
    CHECK(heard.await([](const Heard& h) { return h.text() == "one two"; }));
}

TEST_CASE("a signal and a told end end the pump") {
    Pipes pipes;
    Heard heard;
    SECTION("signal") {
        const InputPump pump(pipes.input[0], pipes.signals, 0, heard.calls());
        pipes.raise();
        CHECK(heard.await(ended_by(InputEnd::signalled)));
    }
    SECTION("told") {
        const InputPump pump(pipes.input[0], pipes.signals, 0, heard.calls());
        pipes.write("please quit now");
        CHECK(heard.await(ended_by(InputEnd::told)));
    }
    SECTION("another parent") {
        const InputPump pump(pipes.input[0], pipes.signals, ::getppid() + 1, heard.calls());
        CHECK(heard.await(ended_by(InputEnd::parent_gone)));
    }
}

TEST_CASE("without room nothing is read but a hang-up and a signal are seen") {
    Pipes pipes;
    Heard heard;
    heard.set_room(false);
    SECTION("room comes back") {
        const InputPump pump(pipes.input[0], pipes.signals, 0, heard.calls());
        pipes.write("waits");
        CHECK_FALSE(heard.await([](const Heard& h) { return !h.text().empty(); }, Ms(100)));
        heard.set_room(true);
        CHECK(heard.await([](const Heard& h) { return h.text() == "waits"; }));
    }
    SECTION("hang-up") {
        const InputPump pump(pipes.input[0], pipes.signals, 0, heard.calls());
        pipes.write("waits");
        pipes.hang_up();
        CHECK(heard.await(ended_by(InputEnd::closed)));
        CHECK(heard.text().empty());
    }
    SECTION("signal") {
        const InputPump pump(pipes.input[0], pipes.signals, 0, heard.calls());
        pipes.raise();
        CHECK(heard.await(ended_by(InputEnd::signalled)));
    }
}

TEST_CASE("a process that does not leave in time is overdue and one that does is not") {
    Pipes pipes;
    Heard late;
    {
        const InputPump pump(pipes.input[0], pipes.signals, 0, late.calls(Ms(30)));
        pipes.hang_up();
        CHECK(late.await([](const Heard& h) { return h.overdue(); }));
    }
    Pipes other;
    Heard in_time;
    {
        const InputPump pump(other.input[0], other.signals, 0, in_time.calls());
        other.hang_up();
        CHECK(in_time.await(ended_by(InputEnd::closed)));
    }
    CHECK_FALSE(in_time.overdue());
}

TEST_CASE("the grace may change while the process is leaving") {
    Pipes pipes;
    Heard heard;
    const InputPump pump(pipes.input[0], pipes.signals, 0, heard.calls(Ms(60'000)));
    pipes.hang_up();
    CHECK(heard.await(ended_by(InputEnd::closed)));
    CHECK_FALSE(heard.await([](const Heard& h) { return h.overdue(); }, Ms(100)));
    heard.set_grace(Ms(0));
    CHECK(heard.await([](const Heard& h) { return h.overdue(); }));
    CHECK(heard.ends() == 1);
}

}  // namespace strata
