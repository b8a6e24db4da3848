// CACHE, the event: the list of parked conversations, one row a line, closed by `CACHE end
// parked=N held=BYTES retained=BYTES`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/err_line.hpp"
#include "protocol/held_figures.hpp"

namespace strata::protocol {

inline constexpr std::string_view kCacheRowVerb = "CACHE";

enum class EntryPlace : std::uint8_t { ram, device, disk };
std::string_view word(EntryPlace place);
std::optional<EntryPlace> entry_place_of(std::string_view word);

struct CacheRow {
    std::uint64_t entry = 0;
    std::optional<std::uint64_t> conv;
    std::optional<std::int64_t> tokens;
    std::optional<std::int64_t> bytes;
    std::optional<std::int64_t> unique_bytes;  // what dropping it would give back
    std::optional<std::int64_t> checkpoints;
    std::optional<std::int64_t> last_used;  // seconds ago
    std::optional<std::int64_t> hits;
    std::optional<bool> pinned;
    std::optional<std::string> steer;  // a name; empty = off
    std::optional<EntryPlace> where;
    std::string label;  // empty = none
    friend bool operator==(const CacheRow&, const CacheRow&) = default;
};

struct CacheLine {
    std::optional<CacheRow> row;  // none: the line that closes the list
    HeldFigures now;              // of that line
    friend bool operator==(const CacheLine&, const CacheLine&) = default;
};

std::string format(const CacheLine& line);
Parsed<CacheLine> parse_cache_line(std::string_view line);

}  // namespace strata::protocol
