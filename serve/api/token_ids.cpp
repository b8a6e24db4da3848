// See serve/api/token_ids.hpp.
#include "serve/api/token_ids.hpp"

#include <cmath>
#include <utility>

namespace strata::serve {

namespace json = boost::json;

namespace {

// A whole number that 64 bits do not hold: no vocabulary has it, whatever its type in JSON.
bool is_beyond(const json::value& value) {
    constexpr double kInt64End = 9223372036854775808.0;  // 2^63
    if (value.is_uint64()) return true;
    return value.is_double() && std::abs(value.get_double()) >= kInt64End;
}

std::string place(const std::string& path, std::size_t index) {
    return path + "[" + std::to_string(index) + "]";
}

}  // namespace

GivenIds read_token_ids(const json::array& list, std::string path, FirstFault& fault) {
    GivenIds given;
    given.path = std::move(path);
    given.ids.reserve(list.size());
    for (const json::value& item : list) {
        if (item.is_int64()) {
            given.ids.push_back(item.get_int64());
            continue;
        }
        const std::string at = place(given.path, given.ids.size());
        if (is_beyond(item)) {
            given.beyond = fault.as_written(at, item);
        } else {
            fault.set_value(at, item, "a token id");
        }
        break;
    }
    return given;
}

ApiResult<std::vector<TokenId>> checked_ids(const GivenIds& given, const TextModel& text) {
    const auto size = static_cast<std::int64_t>(text.tokenizer().size());
    const auto refuse_id = [&](std::size_t index, const std::string& shown) {
        ApiError error;
        error.param = place(given.path, index);
        error.code = "invalid_value";
        error.message = error.param + " is " + shown + "; allowed: a token id from 0 to " +
                        std::to_string(size - 1);
        return Failure{std::move(error)};
    };
    std::vector<TokenId> out;
    out.reserve(given.ids.size());
    for (const std::int64_t id : given.ids) {
        if (id < 0 || id >= size) return refuse_id(out.size(), std::to_string(id));
        out.push_back(static_cast<TokenId>(id));
    }
    if (!given.beyond.empty()) return refuse_id(out.size(), given.beyond);
    return out;
}

}  // namespace strata::serve
