// Bytes of a stranger as the engine's stdout: the lines must not depend on the cut between two
// reads, and an event that parses must survive format and parse unchanged.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "protocol/event.hpp"
#include "protocol/line_reader.hpp"

namespace {

using namespace strata::protocol;

using Lines = std::vector<std::pair<std::string, bool>>;

// A property that does not hold is a crash: that is how libFuzzer is told.
void require(bool holds) {
    if (!holds) __builtin_trap();
}

Lines lines_of(std::string_view stream, std::size_t cut) {
    // A small limit, so that over-long lines are met within the fuzzer's own limit of input.
    LineReader reader(512);
    Lines out;
    const auto keep = [&out](const RawLine& line) {
        out.emplace_back(std::string(line.text), line.overlong);
    };
    reader.feed(stream.substr(0, cut), keep);
    require(reader.held_bytes() <= 512);
    reader.feed(stream.substr(cut), keep);
    reader.finish();
    return out;
}

// Figures are written with one decimal, so the second writing is the one that must be stable.
void check_event(std::string_view line) {
    const auto event = parse_event(line);
    if (!event) return;
    const std::string written = format(*event);
    require(written.find('\n') == std::string::npos);
    const auto again = parse_event(written);
    require(again.ok());
    require(again->index() == event->index());
    require(format(*again) == written);
    const auto third = parse_event(written);
    require(third.ok() && *third == *again);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view stream(reinterpret_cast<const char*>(bytes) + 1, size - 1);
    const Lines lines = lines_of(stream, bytes[0] * stream.size() / 255);
    require(lines == lines_of(stream, 0));
    for (const auto& [text, overlong] : lines) {
        if (!overlong) check_event(text);
    }
    return 0;
}
