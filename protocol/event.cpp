#include "protocol/event.hpp"

#include <utility>

#include "protocol/fields.hpp"

namespace strata::protocol {
namespace {

template <class T>
Parsed<Event> as_event(Parsed<T> parsed) {
    if (!parsed) return parsed.failure();
    return Event(std::move(parsed).value());
}

}  // namespace

Parsed<Event> parse_event(std::string_view line) {
    const std::string_view verb = verb_of(line);
    if (verb == kTokenVerb) return as_event(parse_token_line(line));
    if (verb == kProgressVerb) return as_event(parse_progress_line(line));
    if (verb == kPongVerb) return as_event(parse_pong_line(line));
    if (verb == kResumeVerb) return as_event(parse_resume_line(line));
    if (verb == kConvVerb) return as_event(parse_conv_line(line));
    if (verb == kDoneVerb) return as_event(parse_done_line(line));
    if (verb == kErrVerb) return as_event(parse_err_line(line));
    if (verb == kInfoVerb) return as_event(parse_info_line(line));
    if (verb == kLoadVerb) return as_event(parse_load_line(line));
    if (verb == kReadyVerb) return as_event(parse_ready_line(line));
    if (verb == kPressureVerb) return as_event(parse_pressure_line(line));
    if (verb == kCacheRowVerb) return as_event(parse_cache_line(line));
    if (verb == kSavedVerb) return as_event(parse_saved_line(line));
    if (verb == kRestoredVerb) return as_event(parse_restored_line(line));
    if (verb == kSessionErrorVerb) return as_event(parse_session_error_line(line));
    return Failure<ParseError>{
        {ErrCode::bad_line, readable_id(line), quoted(verb) + " is no event"}};
}

std::string format(const Event& event) {
    return std::visit([](const auto& one) { return format(one); }, event);
}

}  // namespace strata::protocol
