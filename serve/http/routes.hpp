// The table of paths: which route a path is, which methods it has, whether it answers without a
// key. Pure. A new endpoint is one row here and one case in dispatch.cpp.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace strata::serve {

enum class Route : std::uint8_t {
    page,  // a file of the web page; also `/`
    chat_completions,
    completions,
    tokenize,
    detokenize,
    apply_template,
    load,
    unload,
    models,
    model,  // /v1/models/{id}
    health,
    status,
    props,
    slots,
    metrics,
    cache_list,
    cache_entry,    // /cache/{id}
    cache_pin,      // /cache/{id}/pin
    not_supported,  // named by the APIs that clients speak, not offered here
};

enum class Method : std::uint8_t { get, head, post, erase, options, other };

struct Target {
    std::string path;       // percent-decoded
    std::string query;      // as sent, without '?'
    std::string authority;  // of an absolute form, as sent: it stands in for Host; "" = none
};

struct RouteMatch {
    Route route = Route::page;
    bool open = false;          // answers without a key
    std::string_view allow;     // methods for the Allow header
    bool method_known = false;  // false: 405
    std::string rest;           // what stood for {id}
};

// None: 404. `is_page`: the web page has a file of this path.
std::optional<RouteMatch> match_route(Method method, std::string_view path, bool is_page);

// Splits and decodes an origin-form target, or the absolute form that proxies send. None: no
// target. Refuses bad percent escapes, control characters and NUL, an empty authority and one with
// a user in it (RFC 9110, 4.2.1 and 4.2.4).
std::optional<Target> parse_target(std::string_view target);

// The value of `name` in a query; none when it is not there.
std::optional<std::string> query_value(std::string_view query, std::string_view name);

// A name that a route reads of its query.
struct QueryName {
    std::string_view name;
    bool flag = false;  // 0 or 1 and nothing else
};
// Of two values one reader takes the first and another the last: there may be one.
struct QueryFault {
    std::string_view name;
    std::string words;  // "is given twice; ..."
};
// The first of `names` that is given twice, is no percent-encoded text, or a flag that is neither
// 0 nor 1.
std::optional<QueryFault> query_fault(std::string_view query, std::span<const QueryName> names);

}  // namespace strata::serve
