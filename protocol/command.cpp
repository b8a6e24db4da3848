#include "protocol/command.hpp"

#include <algorithm>
#include <utility>

#include "protocol/fields.hpp"
#include "protocol/line_reader.hpp"

namespace strata::protocol {
namespace {

template <class T>
Parsed<Command> as_command(Parsed<T> parsed) {
    if (!parsed) return parsed.failure();
    return Command(std::move(parsed).value());
}

}  // namespace

Parsed<Command> parse_command(std::string_view line) {
    const std::string_view verb = verb_of(line);
    if (verb == kGenVerb) return as_command(parse_gen_command(line));
    if (verb == kStopVerb) return as_command(parse_stop_command(line));
    if (verb == kCacheVerb) return as_command(parse_cache_command(line));
    if (verb == kTrimVerb) return as_command(parse_trim_command(line));
    if (verb == kPingVerb) return as_command(parse_ping_command(line));
    if (verb == kSaveVerb) return as_command(parse_save_command(line));
    if (verb == kRestoreVerb) return as_command(parse_restore_command(line));
    if (verb == kQuitVerb) return as_command(parse_quit_command(line));
    return Failure<ParseError>{
        {ErrCode::bad_line, readable_id(line),
         quoted(verb) + " is no command; allowed: GEN STOP CACHE TRIM PING SAVE RESTORE QUIT"}};
}

std::string format(const Command& command) {
    return std::visit([](const auto& one) { return format(one); }, command);
}

ParseError overlong_command(std::string_view head) {
    // The last field of the head may be cut: half an id is another request's.
    const std::size_t whole = std::min(head.rfind(' '), head.size());
    return {ErrCode::bad_line, readable_id(head.substr(0, whole)),
            quoted(verb_of(head)) + " line is longer than " + std::to_string(kCommandLineBytesMax) +
                " bytes"};
}

}  // namespace strata::protocol
