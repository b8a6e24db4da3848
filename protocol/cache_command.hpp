// CACHE, the command: look at and steer the conversation cache. `CACHE action [entry=N]`
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "protocol/err_line.hpp"

namespace strata::protocol {

inline constexpr std::string_view kCacheVerb = "CACHE";

enum class CacheAction : std::uint8_t { list, drop, pin, unpin, clear };
std::string_view word(CacheAction action);
std::optional<CacheAction> cache_action_of(std::string_view word);

struct CacheCommand {
    CacheAction action = CacheAction::list;
    std::optional<std::uint64_t> entry;  // drop, pin and unpin need one; list and clear take none
    friend bool operator==(const CacheCommand&, const CacheCommand&) = default;
};

std::string format(const CacheCommand& command);
Parsed<CacheCommand> parse_cache_command(std::string_view line);

}  // namespace strata::protocol
