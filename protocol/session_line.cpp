#include "protocol/session_line.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {
namespace {

constexpr WordTable<SessionFault, 7> kFaults{{
    {SessionFault::busy, "busy"},
    {SessionFault::empty, "empty"},
    {SessionFault::file, "file"},
    {SessionFault::format, "format"},
    {SessionFault::identity, "identity"},
    {SessionFault::memory, "memory"},
    {SessionFault::other, "other"},
}};

// SAVED and RESTORED carry the same three figures.
template <class Line>
std::string format_figures(std::string_view verb, const Line& line) {
    FieldWriter out(verb);
    out.put(line.tokens);
    out.put(line.bytes);
    out.put_tenths(line.ms);
    return out.take();
}

template <class Line>
Parsed<Line> parse_figures(std::string_view line, std::string_view verb) {
    FieldReader fields(line, verb);
    Line out;
    fields.position(1, "tokens", out.tokens);
    fields.position(2, "bytes", out.bytes);
    fields.position(3, "ms", out.ms);
    return fields.finish(out);
}

}  // namespace

std::string_view word(SessionFault fault) {
    return word_in(kFaults, fault);
}

std::optional<SessionFault> session_fault_of(std::string_view word) {
    return value_in(kFaults, word);
}

std::string format(const SavedLine& line) {
    return format_figures(kSavedVerb, line);
}

std::string format(const RestoredLine& line) {
    return format_figures(kRestoredVerb, line);
}

std::string format(const SessionErrorLine& line) {
    FieldWriter out(kSessionErrorVerb);
    out.put(word(line.kind));
    out.text("text", line.text);
    return out.take();
}

Parsed<SavedLine> parse_saved_line(std::string_view line) {
    return parse_figures<SavedLine>(line, kSavedVerb);
}

Parsed<RestoredLine> parse_restored_line(std::string_view line) {
    return parse_figures<RestoredLine>(line, kRestoredVerb);
}

Parsed<SessionErrorLine> parse_session_error_line(std::string_view line) {
    FieldReader fields(line, kSessionErrorVerb);
    SessionErrorLine out;
    if (fields.has_position(1, "kind")) {
        out.kind = session_fault_of(fields.position_text(1)).value_or(SessionFault::other);
    }
    fields.text("text", out.text);
    return fields.finish(std::move(out));
}

}  // namespace strata::protocol
