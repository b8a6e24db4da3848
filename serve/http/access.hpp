// Who may ask: Host, Origin and API keys. Pure functions of the settings and the header values.
//
// Without a key the server trusts whoever reaches its port, so a web page must not reach it through
// the user's browser: the Host must be a name of this machine (DNS rebinding), and a POST from
// another page's Origin is refused. With a key both rest on the key.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "serve/api/api_error.hpp"
#include "serve/http/settings.hpp"

namespace strata::serve {

struct AccessFacts {
    std::string_view host;    // Host header, or the authority of an absolute target
    std::string_view origin;  // Origin header; "" = none
    bool has_origin = false;
    std::string_view authorization;  // "Bearer KEY"
    std::string_view x_api_key;
    bool posts = false;       // the method changes something
    bool open_route = false;  // answers without a key
};

// None: allowed.
std::optional<ApiError> access_refusal(const AccessSettings& settings, const AccessFacts& facts);

// The value of Access-Control-Allow-Origin for this Origin; none: no CORS header.
std::optional<std::string> cors_origin(const AccessSettings& settings, std::string_view origin);

// Without port and brackets, in lower case; "" when it is no host.
std::string host_name(std::string_view host);

// Takes the same time wherever the two differ.
bool equal_in_constant_time(std::string_view a, std::string_view b);

}  // namespace strata::serve
