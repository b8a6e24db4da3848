// See serve/api/first_words.hpp.
#include "serve/api/first_words.hpp"

#include <string_view>

namespace strata::serve {

namespace {

bool is_blank(char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == 0x7F;
}

bool continues_character(char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

std::string beginning(std::string_view text) {
    std::string out;
    bool gap = false;
    for (const char c : text) {
        if (is_blank(c)) {
            gap = !out.empty();
            continue;
        }
        if (out.size() + (gap ? 1 : 0) >= kFirstWordsBytesMax) {
            // The character that does not fit goes whole.
            if (continues_character(c) && !gap) {
                while (continues_character(out.back())) out.pop_back();
                out.pop_back();
            }
            break;
        }
        if (gap) out += ' ';
        gap = false;
        out += c;
    }
    return out;
}

}  // namespace

std::string first_words(const ChatRequest& request) {
    if (request.raw) return beginning(request.raw->text);
    for (const ChatMessage& message : request.messages) {
        if (message.role == Role::user) return beginning(message.content.value_or(""));
    }
    return {};
}

}  // namespace strata::serve
