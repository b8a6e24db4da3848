#include "protocol/stop_command.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {

std::string format(const StopCommand& command) {
    FieldWriter out(kStopVerb);
    out.name("id", command.id);
    return out.take();
}

Parsed<StopCommand> parse_stop_command(std::string_view line) {
    FieldReader fields(line, kStopVerb);
    StopCommand out;
    fields.named("id", out.id);
    return fields.finish(out);
}

}  // namespace strata::protocol
