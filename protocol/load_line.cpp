#include "protocol/load_line.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {

std::string format(const LoadLine& line) {
    FieldWriter out(kLoadVerb);
    out.put(line.bytes_done);
    out.put(line.bytes_total);
    return out.take();
}

Parsed<LoadLine> parse_load_line(std::string_view line) {
    FieldReader fields(line, kLoadVerb);
    LoadLine out;
    fields.position(1, "bytes_done", out.bytes_done);
    fields.position(2, "bytes_total", out.bytes_total);
    return fields.finish(out);
}

}  // namespace strata::protocol
