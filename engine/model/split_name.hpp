// The file names of a split model: STEM-00001-of-00003.gguf, numbered from 1.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace strata {

struct SplitName {
    std::string stem;  // with its folder
    std::uint64_t number = 0;
    std::uint64_t count = 0;
};

// "-00001-of-00003.gguf"
std::string split_suffix(std::uint64_t number, std::uint64_t count);
std::optional<SplitName> parse_split_name(std::string_view path);

}  // namespace strata
