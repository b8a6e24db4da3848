// Bytes of a stranger as the engine's stdin: through LineReader in two cuts, then the command
// parser. What parses must survive format and parse unchanged; what does not must make a readable
// ERR line.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "protocol/command.hpp"
#include "protocol/err_line.hpp"
#include "protocol/line_reader.hpp"

namespace {

using namespace strata::protocol;

// A property that does not hold is a crash: that is how libFuzzer is told.
void require(bool holds) {
    if (!holds) __builtin_trap();
}

void check_refusal(const ParseError& error) {
    const ErrLine written = refusal_of(error);
    const auto read = parse_err_line(format(written));
    require(read.ok() && *read == written);
}

void check_line(const RawLine& line) {
    if (line.overlong) {
        check_refusal(overlong_command(line.text));
        return;
    }
    const auto command = parse_command(line.text);
    if (!command) {
        check_refusal(command.error());
        return;
    }
    const std::string written = format(*command);
    require(written.find('\n') == std::string::npos);
    const auto again = parse_command(written);
    require(again.ok() && *again == *command);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size);

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
    if (size == 0) return 0;
    const std::string_view stream(reinterpret_cast<const char*>(bytes) + 1, size - 1);
    // A small limit, so that over-long lines are met within the fuzzer's own limit of input.
    LineReader reader(512);
    const std::size_t cut = bytes[0] * stream.size() / 255;
    reader.feed(stream.substr(0, cut), check_line);
    reader.feed(stream.substr(cut), check_line);
    reader.finish();
    return 0;
}
