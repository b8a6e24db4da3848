// LineReader: cuts anywhere, caps at their edges, ends in the middle.
#include "protocol/line_reader.hpp"

#include <string>
#include <variant>
#include <vector>

#include <catch2/catch.hpp>

#include "protocol/command.hpp"
#include "protocol/event.hpp"
#include "tests/protocol/random_lines.hpp"

namespace strata::protocol {
namespace {

struct Heard {
    std::string text;
    bool overlong = false;
    friend bool operator==(const Heard&, const Heard&) = default;
};

class Listener {
  public:
    explicit Listener(std::size_t bytes_max) : reader_(bytes_max) {}

    void feed(std::string_view bytes) {
        reader_.feed(bytes, [this](const RawLine& line) {
            heard.push_back({std::string(line.text), line.overlong});
        });
    }
    bool finish() { return reader_.finish(); }
    std::size_t held_bytes() const { return reader_.held_bytes(); }

    std::vector<Heard> heard;

  private:
    LineReader reader_;
};

std::string transcript(std::uint64_t seed) {
    RandomLines random(seed);
    std::string out = "INFO protocol=1\r\n\nREADY 512 stop id\r\n   \n";
    for (std::size_t kind = 0; kind < std::variant_size_v<Event>; ++kind) {
        out += format(random.event(kind));
        out += random.below(2) == 0 ? "\n" : "\r\n";
    }
    return out;
}

std::vector<Event> events_of(const std::vector<Heard>& heard) {
    std::vector<Event> out;
    for (const Heard& line : heard) {
        const Parsed<Event> event = parse_event(line.text);
        INFO(line.text);
        REQUIRE(event.ok());
        out.push_back(*event);
    }
    return out;
}

}  // namespace

TEST_CASE("a transcript cut at any byte gives the same messages") {
    const std::string bytes = transcript(0x5EED03);
    Listener whole(kEventLineBytesMax);
    whole.feed(bytes);
    const std::vector<Event> expected = events_of(whole.heard);
    REQUIRE(expected.size() == 2 + std::variant_size_v<Event>);
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
        Listener cut_once(kEventLineBytesMax);
        cut_once.feed(bytes.substr(0, cut));
        cut_once.feed(bytes.substr(cut));
        REQUIRE(cut_once.heard == whole.heard);
        REQUIRE_FALSE(cut_once.finish());
    }
    Listener bytewise(kEventLineBytesMax);
    for (const char c : bytes) bytewise.feed({&c, 1});
    CHECK(events_of(bytewise.heard) == expected);
}

TEST_CASE("a stream that ends inside a line completes no message") {
    const std::string line = "DONE 1 2 3.0 4.0 stop 0 0 0 0 0 0 0 0 0 id=7";
    for (std::size_t n = 1; n <= line.size(); ++n) {
        Listener listener(kEventLineBytesMax);
        listener.feed("PONG 1\n" + line.substr(0, n));
        CHECK(listener.heard == std::vector<Heard>{{"PONG 1"}});
        CHECK(listener.finish());
        CHECK_FALSE(listener.finish());
    }
    Listener whole(kEventLineBytesMax);
    whole.feed(line + "\n");
    CHECK_FALSE(whole.finish());
}

TEST_CASE("an event line may have one mebibyte and not one byte more") {
    const std::string next = "\nPONG 2\n";
    for (const int delta : {-1, 0, 1}) {
        const std::string line(kEventLineBytesMax + static_cast<std::size_t>(delta), 'x');
        Listener listener(kEventLineBytesMax);
        listener.feed(line + next);
        REQUIRE(listener.heard.size() == 2);
        CHECK(listener.heard[0].overlong == (delta > 0));
        CHECK(listener.heard[0].text.size() == (delta > 0 ? kOverlongHeadBytes : line.size()));
        CHECK(listener.heard[1] == Heard{"PONG 2"});
    }
}

TEST_CASE("a command line may have sixty-four mebibytes and not one byte more") {
    const std::string chunk(1U << 20U, '1');
    for (const int delta : {-1, 0, 1}) {
        std::size_t longest = 0;
        int overlong = 0;
        LineReader reader(kCommandLineBytesMax);
        const auto sink = [&](const RawLine& line) {
            longest = std::max(longest, line.text.size());
            overlong += line.overlong ? 1 : 0;
        };
        const std::size_t bytes = kCommandLineBytesMax + static_cast<std::size_t>(delta);
        for (std::size_t left = bytes; left > 0; left -= std::min(left, chunk.size())) {
            reader.feed(std::string_view(chunk).substr(0, left), sink);
        }
        reader.feed("\n", sink);
        CHECK(overlong == (delta > 0 ? 1 : 0));
        CHECK(longest == (delta > 0 ? kOverlongHeadBytes : bytes));
        CHECK(reader.held_bytes() == 0);
    }
}

TEST_CASE("an over-long line is reported once wherever it is cut") {
    const std::string bytes =
        "PING 1\n0123456789abcdefg\n0123456789abcde\n0123456789abcdef\nPING 3\n";
    const std::vector<Heard> expected{{"PING 1"},
                                      {"0123456789abcdef", true},
                                      {"0123456789abcde"},
                                      {"0123456789abcdef"},
                                      {"PING 3"}};
    for (std::size_t first = 0; first <= bytes.size(); ++first) {
        for (std::size_t second = first; second <= bytes.size(); ++second) {
            Listener listener(16);
            listener.feed(bytes.substr(0, first));
            listener.feed(bytes.substr(first, second - first));
            listener.feed(bytes.substr(second));
            REQUIRE(listener.heard == expected);
        }
    }
}

TEST_CASE("an endless line holds no memory and is told before it ends") {
    const std::string chunk(1U << 16U, 'x');
    Listener listener(kEventLineBytesMax);
    for (int i = 0; i < 4096; ++i) {
        listener.feed(chunk);
        REQUIRE(listener.held_bytes() <= kEventLineBytesMax);
    }
    CHECK(listener.heard.size() == 1);
    CHECK(listener.heard[0].overlong);
    CHECK_FALSE(listener.finish());
}

TEST_CASE("an over-long command is refused under the id in its head") {
    GenCommand gen;
    gen.id = 123456;
    gen.ids.assign(100, 77);
    const std::string line = format(gen) + "\n";
    Listener listener(64);
    listener.feed(line + "PING 5\n");
    REQUIRE(listener.heard.size() == 2);
    const ParseError refusal = overlong_command(listener.heard[0].text);
    CHECK(refusal.code == ErrCode::bad_line);
    CHECK(refusal.id == 123456);
    CHECK(refusal.text.find("GEN") != std::string::npos);
    CHECK(overlong_command("GEN 8 id=12").id == 0);
    CHECK(overlong_command("xxxx").id == 0);
}

TEST_CASE("a NUL byte reaches the parser inside its line and is refused there") {
    Listener listener(64);
    listener.feed(std::string_view("PING 1\0\nPING 2\n", 15));
    REQUIRE(listener.heard.size() == 2);
    const Parsed<Command> bad = parse_command(listener.heard[0].text);
    REQUIRE_FALSE(bad.ok());
    CHECK(bad.error().code == ErrCode::bad_line);
    CHECK(parse_command(listener.heard[1].text).ok());
}

}  // namespace strata::protocol
