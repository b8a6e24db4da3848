#include "protocol/ready_line.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {
namespace {

constexpr WordTable<bool Capabilities::*, 6> kCapabilities{{
    {&Capabilities::stop, "stop"},
    {&Capabilities::id, "id"},
    {&Capabilities::cache_list, "cache"},
    {&Capabilities::ping, "ping"},
    {&Capabilities::sessions, "sessions"},
    {&Capabilities::grammar, "grammar"},
}};

}  // namespace

std::string format(const ReadyLine& line) {
    FieldWriter out(kReadyVerb);
    out.put(line.max_context);
    for (const auto& [member, word] : kCapabilities) {
        if (line.can.*member) out.put(word);
    }
    out.name("batch", line.batch);
    return out.take();
}

Parsed<ReadyLine> parse_ready_line(std::string_view line) {
    FieldReader fields(line, kReadyVerb);
    ReadyLine out;
    fields.position(1, "max_context", out.max_context);
    for (std::size_t i = 2; i <= fields.positions(); ++i) {
        const auto member = value_in(kCapabilities, fields.position_text(i));
        if (member) out.can.*(*member) = true;
    }
    fields.named("batch", out.batch);
    return fields.finish(out);
}

}  // namespace strata::protocol
