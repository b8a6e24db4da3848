// SAVE and RESTORE: the live conversation to and from a file, between requests. `SAVE path=...`
#pragma once

#include <string>
#include <string_view>

#include "protocol/err_line.hpp"

namespace strata::protocol {

inline constexpr std::string_view kSaveVerb = "SAVE";
inline constexpr std::string_view kRestoreVerb = "RESTORE";

struct SaveCommand {
    std::string path;  // not empty; spaces are legal, escaped as free text is
    friend bool operator==(const SaveCommand&, const SaveCommand&) = default;
};

struct RestoreCommand {
    std::string path;
    friend bool operator==(const RestoreCommand&, const RestoreCommand&) = default;
};

std::string format(const SaveCommand& command);
std::string format(const RestoreCommand& command);
Parsed<SaveCommand> parse_save_command(std::string_view line);
Parsed<RestoreCommand> parse_restore_command(std::string_view line);

}  // namespace strata::protocol
