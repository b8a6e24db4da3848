// The table itself and the target's syntax.
#include "serve/http/routes.hpp"

#include <algorithm>
#include <array>

namespace strata::serve {

namespace {

constexpr std::size_t kShownBytes = 40;  // of a client's value in an error message

enum class Verbs : std::uint8_t { get, post, erase };

struct Row {
    std::string_view path;  // a trailing '/' takes one more segment as {id}
    Verbs verbs;
    Route route;
    bool open = false;
    std::string_view after = {};  // what stands behind {id}
};

constexpr std::array kRows = std::to_array<Row>({
    {"/v1/chat/completions", Verbs::post, Route::chat_completions},
    {"/chat/completions", Verbs::post, Route::chat_completions},
    {"/v1/completions", Verbs::post, Route::completions},
    {"/completions", Verbs::post, Route::completions},
    {"/tokenize", Verbs::post, Route::tokenize},
    {"/detokenize", Verbs::post, Route::detokenize},
    {"/apply-template", Verbs::post, Route::apply_template},
    {"/load", Verbs::post, Route::load},
    {"/unload", Verbs::post, Route::unload},
    {"/v1/models", Verbs::get, Route::models},
    {"/models", Verbs::get, Route::models},
    {"/v1/models/", Verbs::get, Route::model},
    {"/health", Verbs::get, Route::health, true},
    {"/v1/health", Verbs::get, Route::health, true},
    {"/status", Verbs::get, Route::status},
    {"/props", Verbs::get, Route::props},
    {"/slots", Verbs::get, Route::slots},
    {"/metrics", Verbs::get, Route::metrics},
    {"/cache", Verbs::get, Route::cache_list},
    {"/cache/", Verbs::post, Route::cache_pin, false, "/pin"},
    {"/cache/", Verbs::erase, Route::cache_entry},
    {"/v1/embeddings", Verbs::post, Route::not_supported},
    {"/embeddings", Verbs::post, Route::not_supported},
    {"/embedding", Verbs::post, Route::not_supported},
    {"/v1/rerank", Verbs::post, Route::not_supported},
    {"/rerank", Verbs::post, Route::not_supported},
});

std::string_view allow_of(Verbs verbs) {
    switch (verbs) {
        case Verbs::get:
            return "GET, HEAD, OPTIONS";
        case Verbs::post:
            return "POST, OPTIONS";
        case Verbs::erase:
            break;
    }
    return "DELETE, OPTIONS";
}

bool has_method(Verbs verbs, Method method) {
    if (method == Method::options) return true;
    if (verbs == Verbs::post) return method == Method::post;
    if (verbs == Verbs::erase) return method == Method::erase;
    return method == Method::get || method == Method::head;
}

int hex_value(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

std::optional<std::string> percent_decoded(std::string_view text, bool plus_is_space) {
    std::string out;
    out.reserve(text.size());
    for (std::size_t i = 0; i < text.size(); ++i) {
        char c = text[i];
        if (c == '%') {
            if (i + 2 >= text.size()) return std::nullopt;
            const int high = hex_value(text[i + 1]);
            const int low = hex_value(text[i + 2]);
            if (high < 0 || low < 0) return std::nullopt;
            c = static_cast<char>(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus_is_space) {
            c = ' ';
        }
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) return std::nullopt;
        out += c;
    }
    return out;
}

struct QueryItem {
    std::string_view name;
    std::string_view value;  // as sent
};

// Takes the first item off `query`; none when nothing is left.
std::optional<QueryItem> next_item(std::string_view& query) {
    if (query.empty()) return std::nullopt;
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view item = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const std::size_t equals = std::min(item.find('='), item.size());
    return QueryItem{item.substr(0, equals), item.substr(std::min(equals + 1, item.size()))};
}

// Of "http://" or "https://" at the beginning, in any case; 0 when there is none.
std::size_t scheme_bytes(std::string_view target) {
    for (const std::string_view scheme : {"http://", "https://"}) {
        const bool same =
            target.size() >= scheme.size() &&
            std::equal(scheme.begin(), scheme.end(), target.begin(), [](char wanted, char given) {
                return wanted == (given >= 'A' && given <= 'Z' ? given - 'A' + 'a' : given);
            });
        if (same) return scheme.size();
    }
    return 0;
}

}  // namespace

std::optional<RouteMatch> match_route(Method method, std::string_view path, bool is_page) {
    for (const Row& row : kRows) {
        RouteMatch match;
        if (row.path.ends_with('/')) {
            if (!path.starts_with(row.path) || path.size() == row.path.size()) continue;
            std::string_view rest = path.substr(row.path.size());
            if (!rest.ends_with(row.after) || rest.size() == row.after.size()) continue;
            rest.remove_suffix(row.after.size());
            // Names of models have slashes, entries of the cache do not.
            if (row.route != Route::model && rest.find('/') != std::string_view::npos) continue;
            match.rest = std::string(rest);
        } else if (path != row.path) {
            continue;
        }
        match.route = row.route;
        match.open = row.open;
        match.allow = allow_of(row.verbs);
        match.method_known = has_method(row.verbs, method);
        return match;
    }
    if (!is_page && path != "/") return std::nullopt;
    RouteMatch match;
    match.route = Route::page;
    match.open = true;
    match.allow = allow_of(Verbs::get);
    match.method_known = has_method(Verbs::get, method);
    return match;
}

std::optional<Target> parse_target(std::string_view target) {
    Target out;
    if (const std::size_t scheme = scheme_bytes(target); scheme > 0) {
        target.remove_prefix(scheme);
        const std::size_t end = std::min(target.find_first_of("/?"), target.size());
        out.authority = std::string(target.substr(0, end));
        target.remove_prefix(end);
        if (out.authority.empty() || out.authority.find('@') != std::string::npos) {
            return std::nullopt;
        }
    }
    if (target == "*" && out.authority.empty()) {
        out.path = "*";
        return out;
    }
    const std::size_t question = target.find('?');
    std::string_view path = target.substr(0, question);
    if (path.empty() && !out.authority.empty()) path = "/";
    if (!path.starts_with('/')) return std::nullopt;
    std::optional<std::string> decoded = percent_decoded(path, false);
    if (!decoded) return std::nullopt;
    out.path = std::move(*decoded);
    if (question != std::string_view::npos) out.query = std::string(target.substr(question + 1));
    return out;
}

std::optional<std::string> query_value(std::string_view query, std::string_view name) {
    while (const std::optional<QueryItem> item = next_item(query)) {
        if (item->name == name) return percent_decoded(item->value, true);
    }
    return std::nullopt;
}

std::optional<QueryFault> query_fault(std::string_view query, std::span<const QueryName> names) {
    for (const auto& [name, flag] : names) {
        std::size_t times = 0;
        std::string_view left = query;
        while (const std::optional<QueryItem> item = next_item(left)) {
            if (item->name != name) continue;
            if (++times > 1) return QueryFault{name, "is given twice; allowed: once"};
            const std::optional<std::string> value = percent_decoded(item->value, true);
            if (!value) {
                return QueryFault{name, "is " + std::string(item->value.substr(0, kShownBytes)) +
                                            ", which is no percent-encoded text"};
            }
            if (flag && *value != "0" && *value != "1") {
                return QueryFault{name, "is \"" + std::string(item->value.substr(0, kShownBytes)) +
                                            "\"; allowed: 0 or 1"};
            }
        }
    }
    return std::nullopt;
}

}  // namespace strata::serve
