// CONV: one thing that happened to a conversation, before that request's DONE. `CONV kind
// name=value...`
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/err_line.hpp"
#include "protocol/held_figures.hpp"

namespace strata::protocol {

inline constexpr std::string_view kConvVerb = "CONV";

enum class ConvKind : std::uint8_t {
    park,
    skip,  // not parked
    restore,
    borrow,
    supersede,  // an older copy was dropped
    evict,      // lost to the budget or the slot count
    release,    // given back to the host under pressure
    drop,       // by command
    lost,       // not parked at an exchange
};
std::string_view word(ConvKind kind);
std::optional<ConvKind> conv_kind_of(std::string_view word);

enum class ConvReason : std::uint8_t {
    budget,
    too_large,
    slots,
    floor,
    unknown_reading,
    one_shot,
    incomplete,
    allocation,
    invalid,  // the image failed its checks
    command,  // CACHE drop or clear
};
std::string_view word(ConvReason reason);
std::optional<ConvReason> conv_reason_of(std::string_view word);

struct ConvLine {
    ConvKind kind = ConvKind::park;
    std::optional<std::uint64_t> entry;  // number of the parked entry
    std::optional<std::uint64_t> conv;  // number of the conversation, kept through park and restore
    std::optional<std::int64_t> tokens;
    std::optional<std::int64_t> bytes;  // park: newly written; else what it gave back or moved
    std::optional<double> ms;           // one decimal on the wire
    std::optional<std::uint64_t> id;    // the request; absent for what happens between requests
    std::optional<ConvReason> reason;
    std::string label;  // the server's word; empty = none
    HeldFigures now;    // after it
    friend bool operator==(const ConvLine&, const ConvLine&) = default;
};

std::string format(const ConvLine& line);
Parsed<ConvLine> parse_conv_line(std::string_view line);

}  // namespace strata::protocol
