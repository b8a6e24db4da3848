#include "protocol/trim_command.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {

std::string format(const TrimCommand&) {
    return FieldWriter(kTrimVerb).take();
}

Parsed<TrimCommand> parse_trim_command(std::string_view line) {
    return FieldReader(line, kTrimVerb).finish(TrimCommand{});
}

}  // namespace strata::protocol
