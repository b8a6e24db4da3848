// Escapes what a terminal or a JSON reader would stumble over.
#include "serve/supervisor/printable.hpp"

#include <cstdint>

namespace strata::serve {

namespace {

bool continues(std::string_view bytes, std::size_t at) {
    return at < bytes.size() && (static_cast<std::uint8_t>(bytes[at]) & 0xC0U) == 0x80U;
}

// Bytes of the well-formed UTF-8 sequence at `at` (RFC 3629); 0 if there is none.
std::size_t sequence_bytes(std::string_view bytes, std::size_t at) {
    const auto first = static_cast<std::uint8_t>(bytes[at]);
    if (first < 0x80U) return 1;
    if (first < 0xC2U || first > 0xF4U || !continues(bytes, at + 1)) return 0;
    const auto second = static_cast<std::uint8_t>(bytes[at + 1]);
    if (first < 0xE0U) return 2;
    const bool overlong = (first == 0xE0U && second < 0xA0U) || (first == 0xF0U && second < 0x90U);
    const bool outside = (first == 0xEDU && second > 0x9FU) || (first == 0xF4U && second > 0x8FU);
    if (overlong || outside || !continues(bytes, at + 2)) return 0;
    if (first < 0xF0U) return 3;
    return continues(bytes, at + 3) ? 4 : 0;
}

}  // namespace

std::string printable(std::string_view bytes, std::size_t bytes_max) {
    constexpr std::string_view kHex = "0123456789ABCDEF";
    std::string out;
    for (std::size_t at = 0; at < bytes.size();) {
        if (out.size() >= bytes_max) return out + "...";
        const auto byte = static_cast<std::uint8_t>(bytes[at]);
        const std::size_t length = sequence_bytes(bytes, at);
        if (length == 0 || (byte < 0x20U && byte != '\t') || byte == 0x7FU) {
            out += "\\x";
            out += kHex[byte >> 4U];
            out += kHex[byte & 15U];
            ++at;
        } else {
            out += bytes.substr(at, length);
            at += length;
        }
    }
    return out;
}

}  // namespace strata::serve
