#include "protocol/quit_command.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {

std::string format(const QuitCommand&) {
    return FieldWriter(kQuitVerb).take();
}

Parsed<QuitCommand> parse_quit_command(std::string_view line) {
    return FieldReader(line, kQuitVerb).finish(QuitCommand{});
}

}  // namespace strata::protocol
