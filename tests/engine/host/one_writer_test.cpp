// Row C3 of tests/serve/supervisor/ROWS.md, the engine's half: eight threads write through the one
// writer of stdout, and each line comes out whole, once and in its thread's order. With
// STRATA_TEST_WITHOUT=one_writer each thread has a writer of its own on the same pipe: then the
// row must fail.
#include <array>
#include <charconv>
#include <cstdlib>
#include <deque>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <unistd.h>

#include "engine/host/output.hpp"

namespace strata {

namespace {

constexpr std::size_t kThreads = 8;
constexpr std::uint32_t kMessages = 100'000;  // of each thread
constexpr std::uint32_t kLongEvery = 200;  // one in so many is up to 70,000 bytes, as a pipe is not
constexpr std::size_t kShortBytesMax = 200;
constexpr std::size_t kLongBytesMax = 70'000;

std::size_t body_bytes(std::size_t thread, std::uint32_t number) {
    std::minstd_rand dice(static_cast<std::uint32_t>(thread + 1) * 1'000'003U + number);
    dice.discard(3);
    return dice() % (number % kLongEvery == 0 ? kLongBytesMax : kShortBytesMax) + 1;
}

// "thread number bytes xxx\n": which it is, how long, and a letter of the thread's own.
std::string line_of(std::size_t thread, std::uint32_t number) {
    const std::size_t bytes = body_bytes(thread, number);
    std::string line = std::to_string(thread) + " " + std::to_string(number) + " ";
    line.append(bytes, static_cast<char>('a' + thread));
    line += '\n';
    return line;
}

// Takes lines apart; counts what is not the line that its thread has to say next.
class Reader {
  public:
    void take(std::string_view bytes) {
        rest_ += bytes;
        std::size_t begin = 0;
        for (std::size_t end; (end = rest_.find('\n', begin)) != std::string::npos;) {
            line(std::string_view(rest_).substr(begin, end + 1 - begin));
            begin = end + 1;
        }
        rest_.erase(0, begin);
    }
    std::uint64_t lines() const { return lines_; }
    std::uint64_t wrong() const { return wrong_; }
    bool ended_whole() const { return rest_.empty(); }
    std::uint32_t seen(std::size_t thread) const { return next_[thread]; }

  private:
    void line(std::string_view text) {
        ++lines_;
        const std::size_t thread = static_cast<std::size_t>(text[0] - '0');
        if (thread >= kThreads || text != line_of(thread, next_[thread])) {
            ++wrong_;
        } else {
            ++next_[thread];
        }
    }

    std::string rest_;
    std::array<std::uint32_t, kThreads> next_{};
    std::uint64_t lines_ = 0;
    std::uint64_t wrong_ = 0;
};

bool one_writer_taken_away() {
    const char* const without = std::getenv("STRATA_TEST_WITHOUT");
    return without != nullptr && std::string_view(without) == "one_writer";
}

Reader read_all(int descriptor) {
    Reader reader;
    std::vector<char> bytes(1U << 16U);
    for (;;) {
        const ssize_t count = ::read(descriptor, bytes.data(), bytes.size());
        if (count <= 0) return reader;
        reader.take({bytes.data(), static_cast<std::size_t>(count)});
    }
}

}  // namespace

TEST_CASE("lines of eight threads come out whole and in the order of each", "[C3]") {
    INFO("row C3: lines of several threads mixed");
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    Reader reader;
    std::thread reading([&] { reader = read_all(ends[0]); });
    std::deque<LineOutput> writers;
    for (std::size_t i = 0; i < (one_writer_taken_away() ? kThreads : 1); ++i) {
        writers.emplace_back(ends[1]);
    }
    std::array<bool, kThreads> all_written{};
    std::vector<std::thread> threads;
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&, thread] {
            LineOutput& output = writers[thread % writers.size()];
            bool written = true;
            for (std::uint32_t i = 0; i < kMessages && written; ++i) {
                written = output.write(line_of(thread, i));
            }
            all_written[thread] = written;
        });
    }
    for (std::thread& thread : threads) thread.join();
    ::close(ends[1]);
    reading.join();
    ::close(ends[0]);
    CHECK(reader.wrong() == 0);
    CHECK(reader.lines() == kThreads * kMessages);
    CHECK(reader.ended_whole());
    for (std::size_t thread = 0; thread < kThreads; ++thread) {
        INFO("thread " << thread);
        CHECK(all_written[thread]);
        CHECK(reader.seen(thread) == kMessages);
    }
}

}  // namespace strata
