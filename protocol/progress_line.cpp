#include "protocol/progress_line.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {

std::string format(const ProgressLine& line) {
    FieldWriter out(kProgressVerb);
    out.put(line.position);
    out.put(line.prompt_tokens);
    out.put_tenths(line.ms);
    out.put_tenths(line.tokens_per_s);
    out.name("id", line.id);
    return out.take();
}

Parsed<ProgressLine> parse_progress_line(std::string_view line) {
    FieldReader fields(line, kProgressVerb);
    ProgressLine out;
    fields.position(1, "position", out.position);
    fields.position(2, "prompt_tokens", out.prompt_tokens);
    fields.position(3, "ms", out.ms);
    fields.position(4, "tokens_per_s", out.tokens_per_s);
    fields.named("id", out.id);
    return fields.finish(out);
}

}  // namespace strata::protocol
