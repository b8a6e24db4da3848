// SAVED, RESTORED, SERR: how a session command ended. `SAVED tokens bytes ms`, `RESTORED tokens
// bytes ms`, `SERR kind text=...`. Each is a struct of its own; they share this file as their
// commands do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/err_line.hpp"

namespace strata::protocol {

inline constexpr std::string_view kSavedVerb = "SAVED";
inline constexpr std::string_view kRestoredVerb = "RESTORED";
inline constexpr std::string_view kSessionErrorVerb = "SERR";

struct SavedLine {
    std::int64_t tokens = 0;
    std::int64_t bytes = 0;
    double ms = 0;  // one decimal on the wire
    friend bool operator==(const SavedLine&, const SavedLine&) = default;
};

struct RestoredLine {
    std::int64_t tokens = 0;
    std::int64_t bytes = 0;
    double ms = 0;
    friend bool operator==(const RestoredLine&, const RestoredLine&) = default;
};

enum class SessionFault : std::uint8_t {
    busy,      // a request runs
    empty,     // no conversation to save
    file,      // cannot be opened, read or written
    format,    // no session file, damaged, or of another layout
    identity,  // of other weights or settings
    memory,
    other,  // also what a kind of a newer engine reads as
};
std::string_view word(SessionFault fault);
std::optional<SessionFault> session_fault_of(std::string_view word);

struct SessionErrorLine {
    SessionFault kind = SessionFault::other;
    std::string text;  // for people; any UTF-8
    friend bool operator==(const SessionErrorLine&, const SessionErrorLine&) = default;
};

std::string format(const SavedLine& line);
std::string format(const RestoredLine& line);
std::string format(const SessionErrorLine& line);
Parsed<SavedLine> parse_saved_line(std::string_view line);
Parsed<RestoredLine> parse_restored_line(std::string_view line);
Parsed<SessionErrorLine> parse_session_error_line(std::string_view line);

}  // namespace strata::protocol
