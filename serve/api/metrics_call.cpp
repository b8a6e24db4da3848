// See serve/api/metrics_call.hpp.
#include "serve/api/metrics_call.hpp"

#include <algorithm>
#include <charconv>
#include <string>

namespace strata::serve {

namespace {

constexpr std::string_view kBlanks = " \t";

std::string_view trimmed(std::string_view text) {
    const std::size_t first = text.find_first_not_of(kBlanks);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

// Takes what stands before the next `mark` off the front of `text`.
std::string_view next_part(std::string_view& text, char mark) {
    const std::size_t end = std::min(text.find(mark), text.size());
    const std::string_view part = trimmed(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    return part;
}

double weight_of(std::string_view parameters) {
    while (!parameters.empty()) {
        const std::string_view each = next_part(parameters, ';');
        if (!each.starts_with("q=") && !each.starts_with("Q=")) continue;
        double weight = 0;
        std::from_chars(each.data() + 2, each.data() + each.size(), weight);
        return weight;
    }
    return 1;
}

bool prefers_text(std::string_view accept) {
    double json = 0;
    double text = 0;
    while (!accept.empty()) {
        std::string_view item = next_part(accept, ',');
        const std::string_view type = next_part(item, ';');
        const double weight = weight_of(item);
        if (type == "application/json") json = std::max(json, weight);
        if (type == "text/plain" || type == "application/openmetrics-text") {
            text = std::max(text, weight);
        }
    }
    return text > json;
}

ApiError bad_query(std::string param, std::string_view value, std::string_view allowed) {
    constexpr std::size_t kShownMax = 40;
    ApiError error;
    error.code = "invalid_value";
    error.message = param + " is " + std::string(value.substr(0, kShownMax)) +
                    "; allowed: " + std::string(allowed);
    error.param = std::move(param);
    return error;
}

}  // namespace

ApiResult<MetricsWish> metrics_wish(std::string_view accept, std::string_view format,
                                    std::string_view rows) {
    MetricsWish wish;
    if (format.empty()) {
        wish.prometheus = prefers_text(accept);
    } else if (format == "prometheus" || format == "json") {
        wish.prometheus = format == "prometheus";
    } else {
        return Failure{bad_query("format", format, "json, prometheus")};
    }
    if (rows.empty()) return wish;
    const char* const end = rows.data() + rows.size();
    const auto parsed = std::from_chars(rows.data(), end, wish.rows);
    if (parsed.ec != std::errc{} || parsed.ptr != end || wish.rows < 1 ||
        wish.rows > RequestHistory::kRowsMax) {
        return Failure{bad_query(
            "rows", rows, "a whole number from 1 to " + std::to_string(RequestHistory::kRowsMax))};
    }
    return wish;
}

}  // namespace strata::serve
