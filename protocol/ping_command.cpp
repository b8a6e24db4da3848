#include "protocol/ping_command.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {

std::string format(const PingCommand& command) {
    FieldWriter out(kPingVerb);
    out.put(command.n);
    return out.take();
}

Parsed<PingCommand> parse_ping_command(std::string_view line) {
    FieldReader fields(line, kPingVerb);
    PingCommand out;
    fields.position(1, "n", out.n);
    return fields.finish(out);
}

}  // namespace strata::protocol
