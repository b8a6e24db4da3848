#include "protocol/session_command.hpp"

#include "protocol/fields.hpp"

namespace strata::protocol {
namespace {

std::string format_path(std::string_view verb, const std::string& path) {
    FieldWriter out(verb);
    out.text("path", path);
    return out.take();
}

// Both commands are a verb and a path.
template <class SessionCommand>
Parsed<SessionCommand> parse_path(std::string_view line, std::string_view verb) {
    FieldReader fields(line, verb);
    SessionCommand out;
    fields.text("path", out.path);
    if (out.path.empty()) {
        fields.refuse(ErrCode::bad_field, std::string(verb) + " needs path= and a file's name");
    }
    return fields.finish(std::move(out));
}

}  // namespace

std::string format(const SaveCommand& command) {
    return format_path(kSaveVerb, command.path);
}

std::string format(const RestoreCommand& command) {
    return format_path(kRestoreVerb, command.path);
}

Parsed<SaveCommand> parse_save_command(std::string_view line) {
    return parse_path<SaveCommand>(line, kSaveVerb);
}

Parsed<RestoreCommand> parse_restore_command(std::string_view line) {
    return parse_path<RestoreCommand>(line, kRestoreVerb);
}

}  // namespace strata::protocol
