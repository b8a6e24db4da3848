// Bytes of a stranger as text for logs and JSON: control characters and bytes that are no UTF-8
// become \xHH, and what is longer than the limit is cut.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace strata::serve {

std::string printable(std::string_view bytes, std::size_t bytes_max);

}  // namespace strata::serve
