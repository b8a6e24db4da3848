// ERR: a refusal, or with fatal=1 the last word of a dying engine. Owns the error codes and the
// type in which every parser of this folder refuses a line. `ERR code id=N [fatal=1] text=...`
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "strata/core/result.hpp"

namespace strata::protocol {

inline constexpr std::string_view kErrVerb = "ERR";

enum class ErrCode : std::uint8_t {
    bad_line,        // not a line of this protocol: its shape is wrong
    bad_field,       // a field is missing, twice there, no number, or out of its range
    bad_token,       // a token id that is none
    too_long,        // prompt + max_new over the context
    busy,            // no free lane
    unsupported,     // a command that this engine does not have
    out_of_memory,   // memory for this request
    restore_failed,  // a transfer failed half-way; always fatal
    device_lost,     // always fatal
    internal,        // also what a code of a newer engine reads as
};
std::string_view word(ErrCode code);
std::optional<ErrCode> err_code_of(std::string_view word);

// Why a line was refused. `id` is the line's own if it could be read, else 0.
struct ParseError {
    ErrCode code = ErrCode::bad_line;
    std::uint64_t id = 0;
    std::string text;
    friend bool operator==(const ParseError&, const ParseError&) = default;
};
template <class T>
using Parsed = Result<T, ParseError>;

struct ErrLine {
    ErrCode code = ErrCode::internal;
    std::uint64_t id = 0;  // 0: no request, or a line whose id could not be read
    bool fatal = false;    // the process ends right after
    std::string text;      // for people; any UTF-8
    friend bool operator==(const ErrLine&, const ErrLine&) = default;
};

std::string format(const ErrLine& line);  // without LF, as every format of this folder
Parsed<ErrLine> parse_err_line(std::string_view line);

// The answer to a line that was refused.
ErrLine refusal_of(const ParseError& error);

}  // namespace strata::protocol
