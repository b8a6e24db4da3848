// Limits of a request's head at -1, 0 and +1, however its bytes arrive.
#include "serve/http/head_scan.hpp"

#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "serve/http/settings.hpp"

using namespace strata::serve;

namespace {

HeadState scan_whole(const std::string& head) {
    HeadScan scan;
    return scan.scan(head);
}

std::string request_line(std::size_t bytes) {
    const std::string method = "GET /";
    const std::string version = " HTTP/1.1";
    return method + std::string(bytes - method.size() - version.size(), 'a') + version;
}

std::string header(std::size_t bytes) {
    return "x: " + std::string(bytes - 3, 'v');
}

std::string with_headers(const std::vector<std::string>& headers) {
    std::string head = "GET / HTTP/1.1\r\n";
    for (const std::string& line : headers) head += line + "\r\n";
    return head + "\r\n";
}

}  // namespace

TEST_CASE("a request line is refused one byte over its limit") {
    CHECK(scan_whole(request_line(kRequestLineBytesMax - 1) + "\r\n\r\n") == HeadState::complete);
    CHECK(scan_whole(request_line(kRequestLineBytesMax) + "\r\n\r\n") == HeadState::complete);
    CHECK(scan_whole(request_line(kRequestLineBytesMax + 1) + "\r\n\r\n") ==
          HeadState::request_line_too_long);
}

TEST_CASE("an endless request line is refused before its end comes") {
    CHECK(scan_whole(std::string(kRequestLineBytesMax, 'a')) == HeadState::incomplete);
    CHECK(scan_whole(std::string(kRequestLineBytesMax + 1, 'a')) ==
          HeadState::request_line_too_long);
}

TEST_CASE("one header is refused one byte over its limit") {
    CHECK(scan_whole(with_headers({header(kHeaderLineBytesMax - 1)})) == HeadState::complete);
    CHECK(scan_whole(with_headers({header(kHeaderLineBytesMax)})) == HeadState::complete);
    CHECK(scan_whole(with_headers({header(kHeaderLineBytesMax + 1)})) ==
          HeadState::header_too_long);
    const std::string open = "GET / HTTP/1.1\r\n" + header(kHeaderLineBytesMax + 1);
    CHECK(scan_whole(open) == HeadState::header_too_long);
}

TEST_CASE("all headers together are refused one byte over their limit") {
    // Four full lines with their line ends pass 32 KiB; the last one is cut to fit.
    const auto lines_of = [](std::size_t bytes) {
        std::vector<std::string> lines;
        while (bytes > 0) {
            const std::size_t line = std::min(bytes, kHeaderLineBytesMax + 2);
            lines.push_back(header(line - 2));
            bytes -= line;
        }
        return lines;
    };
    CHECK(scan_whole(with_headers(lines_of(kHeadersBytesMax - 1))) == HeadState::complete);
    CHECK(scan_whole(with_headers(lines_of(kHeadersBytesMax))) == HeadState::complete);
    CHECK(scan_whole(with_headers(lines_of(kHeadersBytesMax + 1))) == HeadState::headers_too_long);
}

TEST_CASE("the number of headers is refused one over its limit") {
    CHECK(scan_whole(with_headers(std::vector<std::string>(kHeadersMax - 1, "a: b"))) ==
          HeadState::complete);
    CHECK(scan_whole(with_headers(std::vector<std::string>(kHeadersMax, "a: b"))) ==
          HeadState::complete);
    CHECK(scan_whole(with_headers(std::vector<std::string>(kHeadersMax + 1, "a: b"))) ==
          HeadState::too_many_headers);
}

TEST_CASE("a continued header line is refused") {
    CHECK(scan_whole(with_headers({"a: b", " c"})) == HeadState::folded_header);
    CHECK(scan_whole(with_headers({"a: b", "\tc"})) == HeadState::folded_header);
}

TEST_CASE("a head that comes byte by byte is complete at the same byte") {
    const std::string head = with_headers({"host: a", "accept: */*"});
    const std::string bytes = head + "body";
    HeadScan scan;
    for (std::size_t size = 1; size < head.size(); ++size) {
        INFO(size);
        REQUIRE(scan.scan(std::string_view(bytes).substr(0, size)) == HeadState::incomplete);
    }
    REQUIRE(scan.scan(bytes) == HeadState::complete);
    CHECK(scan.size() == head.size());
}
