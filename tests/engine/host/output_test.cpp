// The engine's stdout: whole groups through a pipe of whatever kind, and silence after it broke.
#include "engine/host/output.hpp"

#include <csignal>
#include <string>
#include <thread>

#include <catch2/catch.hpp>
#include <fcntl.h>
#include <unistd.h>

namespace strata {

TEST_CASE("a group larger than the pipe arrives whole through a non-blocking descriptor") {
    int ends[2];
    REQUIRE(::pipe2(ends, O_NONBLOCK) == 0);
    std::string sent;
    for (int i = 0; sent.size() < 1'000'000; ++i) sent += "T " + std::to_string(i) + "\n";
    std::string received;
    std::thread reader([&] {
        char bytes[5000];
        while (received.size() < sent.size()) {
            const ssize_t count = ::read(ends[0], bytes, sizeof bytes);
            if (count > 0) received.append(bytes, static_cast<std::size_t>(count));
            if (count == 0) break;
        }
    });
    LineOutput output(ends[1]);
    CHECK(output.write(sent));
    reader.join();
    CHECK(received == sent);
    ::close(ends[0]);
    ::close(ends[1]);
}

TEST_CASE("after the reader went away nothing is written and nothing is raised") {
    std::signal(SIGPIPE, SIG_IGN);
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    LineOutput output(ends[1]);
    CHECK(output.write("PONG 1\n"));
    ::close(ends[0]);
    CHECK_FALSE(output.write("PONG 2\n"));
    CHECK(output.broken());
    CHECK_FALSE(output.write("PONG 3\n"));
    ::close(ends[1]);
}

}  // namespace strata
