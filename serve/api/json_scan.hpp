// A look at JSON text before it is read: where it stops being JSON, and whether an object has a key
// twice. RFC 8259 leaves open which of two equal keys counts, and readers differ; a body that means
// one thing to a proxy and another one here is refused. Owns no limits of requests.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <boost/json/value.hpp>

namespace strata::serve {

enum class JsonFaultKind : std::uint8_t { not_utf8, syntax, too_deep, repeated_key, too_many_keys };

struct JsonFault {
    JsonFaultKind kind = JsonFaultKind::syntax;
    std::string text;      // "syntax error at byte 7"
    std::string path;      // JSON path of a repeated key; else ""
    std::size_t byte = 0;  // where it was seen
};

// None: the text is JSON. Keys of open objects are kept meanwhile: at most the text's own size and
// 32 MiB of them.
std::optional<JsonFault> find_json_fault(std::string_view text, std::size_t depth_max);

// The number at `path` ("tokens[3]") as the text has it, in the spelling of whoever wrote it; ""
// when no number is there.
std::string number_at(std::string_view text, std::string_view path);

// A value as JSON text, numbers as people write them (Boost.JSON 1.81 prints 1.5 as 1.5E0).
std::string json_text(const boost::json::value& value);

}  // namespace strata::serve
