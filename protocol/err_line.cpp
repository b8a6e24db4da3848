#include "protocol/err_line.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {
namespace {

constexpr WordTable<ErrCode, 10> kCodes{{
    {ErrCode::bad_line, "bad_line"},
    {ErrCode::bad_field, "bad_field"},
    {ErrCode::bad_token, "bad_token"},
    {ErrCode::too_long, "too_long"},
    {ErrCode::busy, "busy"},
    {ErrCode::unsupported, "unsupported"},
    {ErrCode::out_of_memory, "out_of_memory"},
    {ErrCode::restore_failed, "restore_failed"},
    {ErrCode::device_lost, "device_lost"},
    {ErrCode::internal, "internal"},
}};

}  // namespace

std::string_view word(ErrCode code) {
    return word_in(kCodes, code);
}

std::optional<ErrCode> err_code_of(std::string_view word) {
    return value_in(kCodes, word);
}

std::string format(const ErrLine& line) {
    FieldWriter out(kErrVerb);
    out.put(word(line.code));
    out.name("id", line.id);
    if (line.fatal) out.name("fatal", true);
    out.text("text", line.text);
    return out.take();
}

Parsed<ErrLine> parse_err_line(std::string_view line) {
    FieldReader fields(line, kErrVerb);
    ErrLine out;
    // A refusal that is not understood still ends its request, so an unknown code does not refuse
    // it.
    if (fields.has_position(1, "code")) {
        out.code = err_code_of(fields.position_text(1)).value_or(ErrCode::internal);
    }
    fields.named("id", out.id);
    fields.named("fatal", out.fatal);
    fields.text("text", out.text);
    return fields.finish(std::move(out));
}

ErrLine refusal_of(const ParseError& error) {
    return {.code = error.code, .id = error.id, .fatal = false, .text = error.text};
}

}  // namespace strata::protocol
