#include "protocol/conv_line.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {
namespace {

constexpr WordTable<ConvKind, 9> kKinds{{
    {ConvKind::park, "park"},
    {ConvKind::skip, "skip"},
    {ConvKind::restore, "restore"},
    {ConvKind::borrow, "borrow"},
    {ConvKind::supersede, "supersede"},
    {ConvKind::evict, "evict"},
    {ConvKind::release, "release"},
    {ConvKind::drop, "drop"},
    {ConvKind::lost, "lost"},
}};

constexpr WordTable<ConvReason, 10> kReasons{{
    {ConvReason::budget, "budget"},
    {ConvReason::too_large, "too_large"},
    {ConvReason::slots, "slots"},
    {ConvReason::floor, "floor"},
    {ConvReason::unknown_reading, "unknown_reading"},
    {ConvReason::one_shot, "one_shot"},
    {ConvReason::incomplete, "incomplete"},
    {ConvReason::allocation, "allocation"},
    {ConvReason::invalid, "invalid"},
    {ConvReason::command, "command"},
}};

}  // namespace

std::string_view word(ConvKind kind) {
    return word_in(kKinds, kind);
}

std::optional<ConvKind> conv_kind_of(std::string_view word) {
    return value_in(kKinds, word);
}

std::string_view word(ConvReason reason) {
    return word_in(kReasons, reason);
}

std::optional<ConvReason> conv_reason_of(std::string_view word) {
    return value_in(kReasons, word);
}

std::string format(const ConvLine& line) {
    FieldWriter out(kConvVerb);
    out.put(word(line.kind));
    out.name("entry", line.entry);
    out.name("conv", line.conv);
    out.name("tokens", line.tokens);
    out.name("bytes", line.bytes);
    out.name_tenths("ms", line.ms);
    out.name("id", line.id);
    out.name_word("reason", line.reason);
    out.name("label", line.label);
    put(out, line.now);
    return out.take();
}

Parsed<ConvLine> parse_conv_line(std::string_view line) {
    FieldReader fields(line, kConvVerb);
    ConvLine out;
    fields.position_word(1, "kind", out.kind, kKinds);
    fields.named("entry", out.entry);
    fields.named("conv", out.conv);
    fields.named("tokens", out.tokens);
    fields.named("bytes", out.bytes);
    fields.named("ms", out.ms);
    fields.named("id", out.id);
    fields.named_word("reason", out.reason, conv_reason_of);
    fields.named("label", out.label);
    take(fields, out.now);
    return fields.finish(std::move(out));
}

}  // namespace strata::protocol
