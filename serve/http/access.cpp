// The rules of access, in the order in which they are asked.
#include "serve/http/access.hpp"

#include <algorithm>
#include <array>
#include <cctype>

#include <boost/asio/ip/address.hpp>

namespace strata::serve {

namespace {

constexpr std::size_t kShownBytesMax = 100;  // of a header in an error message

std::string lower(std::string_view text) {
    std::string out(text);
    std::transform(out.begin(), out.end(), out.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return out;
}

// A header value for people: printable ASCII, cut.
std::string shown(std::string_view text) {
    std::string out;
    for (const char c : text.substr(0, kShownBytesMax)) {
        out += c >= 0x20 && c < 0x7F ? c : '?';
    }
    return out;
}

bool is_address(const std::string& name) {
    boost::system::error_code code;
    boost::asio::ip::make_address(name, code);
    return !code;
}

bool listens_wide(std::string_view host) {
    return host == "0.0.0.0" || host == "::";
}

bool matches(std::string_view name, std::string_view rule) {
    if (rule == "*") return true;
    if (rule.starts_with('.')) return name.ends_with(rule) || name == rule.substr(1);
    return name == rule;
}

bool is_localhost(std::string_view name) {
    return name == "localhost" || name.ends_with(".localhost");
}

bool host_allowed(const AccessSettings& settings, const std::string& name) {
    if (name.empty()) return false;
    if (is_localhost(name) || is_address(name) || name == lower(settings.listen_host)) return true;
    if (listens_wide(settings.listen_host)) {
        for (const std::string& own : settings.own_names) {
            if (name == lower(own)) return true;
        }
    }
    return std::any_of(settings.allowed_hosts.begin(), settings.allowed_hosts.end(),
                       [&](const std::string& rule) { return matches(name, lower(rule)); });
}

bool is_extension(std::string_view origin) {
    constexpr std::array<std::string_view, 5> kSchemes = {"chrome-extension://", "moz-extension://",
                                                          "safari-web-extension://",
                                                          "vscode-webview://", "vscode-file://"};
    return std::any_of(kSchemes.begin(), kSchemes.end(),
                       [&](std::string_view scheme) { return origin.starts_with(scheme); });
}

// "http://name:port" -> "name:port"; "" for anything else.
std::string_view authority_of(std::string_view origin) {
    for (const std::string_view scheme : {"http://", "https://"}) {
        if (origin.starts_with(scheme)) return origin.substr(scheme.size());
    }
    return {};
}

bool origin_allowed(const AccessSettings& settings, std::string_view origin,
                    std::string_view host) {
    if (is_extension(origin)) return true;
    const std::string_view authority = authority_of(origin);
    if (!authority.empty()) {
        if (lower(authority) == lower(host)) return true;
        const std::string name = host_name(authority);
        if (is_localhost(name) || name == "127.0.0.1" || name == "::1") return true;
    }
    return cors_origin(settings, origin).has_value();
}

bool key_known(const AccessSettings& settings, std::string_view key) {
    bool known = false;
    for (const std::string& allowed : settings.api_keys) {
        known = equal_in_constant_time(allowed, key) || known;
    }
    return known;
}

ApiError denied(ErrorKind kind, std::string code, std::string message) {
    ApiError error;
    error.kind = kind;
    error.code = std::move(code);
    error.message = std::move(message);
    return error;
}

std::optional<ApiError> key_refusal(const AccessSettings& settings, const AccessFacts& facts) {
    if (facts.open_route) return std::nullopt;
    constexpr std::string_view kBearer = "bearer ";
    std::string_view key = facts.x_api_key;
    if (lower(facts.authorization.substr(0, kBearer.size())) == kBearer) {
        key = facts.authorization.substr(kBearer.size());
        while (key.starts_with(' ')) key.remove_prefix(1);
    }
    if (key.empty()) {
        return denied(ErrorKind::authentication, "invalid_api_key",
                      "an API key is needed: Authorization: Bearer KEY, or x-api-key: KEY");
    }
    if (key_known(settings, key)) return std::nullopt;
    return denied(ErrorKind::authentication, "invalid_api_key", "this API key is not known here");
}

}  // namespace

bool equal_in_constant_time(std::string_view a, std::string_view b) {
    volatile unsigned char different = a.size() == b.size() ? 0 : 1;
    for (std::size_t i = 0; i < b.size(); ++i) {
        const char other = a.empty() ? '\0' : a[i % a.size()];
        different = static_cast<unsigned char>(
            different | static_cast<unsigned char>(static_cast<unsigned char>(b[i]) ^
                                                   static_cast<unsigned char>(other)));
    }
    return different == 0;
}

std::string host_name(std::string_view host) {
    std::string_view name = host;
    std::string_view port;
    if (name.starts_with('[')) {
        const std::size_t close = name.find(']');
        if (close == std::string_view::npos) return {};
        port = name.substr(close + 1);
        name = name.substr(1, close - 1);
        if (!port.empty() && !port.starts_with(':')) return {};
    } else if (const std::size_t colon = name.find(':'); colon != std::string_view::npos) {
        port = name.substr(colon);
        name = name.substr(0, colon);
    }
    if (!port.empty()) port.remove_prefix(1);
    const bool digits =
        std::all_of(port.begin(), port.end(), [](char c) { return c >= '0' && c <= '9'; });
    if (!digits) return {};
    if (name.ends_with('.')) name.remove_suffix(1);  // the root of the name space
    return lower(name);
}

std::optional<std::string> cors_origin(const AccessSettings& settings, std::string_view origin) {
    if (origin.empty()) return std::nullopt;
    for (const std::string& rule : settings.cors_origins) {
        if (rule == "*" && origin != "null") return "*";
        if (lower(rule) == lower(origin)) return std::string(origin);
    }
    return std::nullopt;
}

std::optional<ApiError> access_refusal(const AccessSettings& settings, const AccessFacts& facts) {
    if (!settings.api_keys.empty()) return key_refusal(settings, facts);
    if (!host_allowed(settings, host_name(facts.host))) {
        return denied(ErrorKind::permission, "host_not_allowed",
                      "the Host \"" + shown(facts.host) +
                          "\" is not a name of this server: add it with --allowed-host, or set an "
                          "API key");
    }
    if (facts.posts && facts.has_origin && !origin_allowed(settings, facts.origin, facts.host)) {
        return denied(ErrorKind::permission, "origin_not_allowed",
                      "pages of the Origin \"" + shown(facts.origin) +
                          "\" may not use this server: add it with --cors-origin, or set an API "
                          "key");
    }
    return std::nullopt;
}

}  // namespace strata::serve
