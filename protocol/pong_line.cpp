#include "protocol/pong_line.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {

std::string format(const PongLine& line) {
    FieldWriter out(kPongVerb);
    out.put(line.n);
    return out.take();
}

Parsed<PongLine> parse_pong_line(std::string_view line) {
    FieldReader fields(line, kPongVerb);
    PongLine out;
    fields.position(1, "n", out.n);
    return fields.finish(out);
}

}  // namespace strata::protocol
