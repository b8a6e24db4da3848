#include "engine/model/split_name.hpp"

#include <charconv>

namespace strata {
namespace {

constexpr std::size_t kDigits = 5;
constexpr std::string_view kPattern = "-00000-of-00000.gguf";

std::string padded(std::uint64_t number) {
    const std::string digits = std::to_string(number);
    return std::string(digits.size() < kDigits ? kDigits - digits.size() : 0, '0') + digits;
}

}  // namespace

std::string split_suffix(std::uint64_t number, std::uint64_t count) {
    return "-" + padded(number) + "-of-" + padded(count) + ".gguf";
}

std::optional<SplitName> parse_split_name(std::string_view path) {
    if (path.size() < kPattern.size()) return std::nullopt;
    const std::string_view suffix = path.substr(path.size() - kPattern.size());
    SplitName out{std::string(path.substr(0, path.size() - kPattern.size())), 0, 0};
    const auto read = [&](std::size_t at, std::uint64_t& number) {
        std::from_chars(suffix.data() + at, suffix.data() + at + kDigits, number);
    };
    read(1, out.number);
    read(suffix.size() - std::string_view("00000.gguf").size(), out.count);
    // Digits that were not all read, or other letters between them, do not give the same suffix
    // back.
    if (suffix != split_suffix(out.number, out.count)) return std::nullopt;
    return out;
}

}  // namespace strata
