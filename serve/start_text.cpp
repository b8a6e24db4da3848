// Wording of the start.
#include "serve/start_text.hpp"

#include <algorithm>
#include <cmath>

namespace strata::serve {

namespace {

constexpr int kBarCells = 30;

bool listens_wide(std::string_view host) {
    return host == "0.0.0.0" || host == "::";
}

std::string one_decimal(double value) {
    const long long tenths = std::llround(value * 10);
    return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10);
}

std::string rate_text(double bytes_per_second) {
    if (bytes_per_second >= 1e9) return one_decimal(bytes_per_second / 1e9) + " GB/s";
    return std::to_string(std::llround(bytes_per_second / 1e6)) + " MB/s";
}

}  // namespace

std::string load_text(const LoadProgress& progress) {
    const double share = std::clamp(progress.share, 0.0, 1.0);
    const int full = static_cast<int>(share * kBarCells);
    std::string text = "[" + std::string(static_cast<std::size_t>(full), '#') +
                       std::string(static_cast<std::size_t>(kBarCells - full), ' ') + "] ";
    const std::string percent = std::to_string(static_cast<int>(share * 100));
    text += std::string(3 - std::min<std::size_t>(3, percent.size()), ' ') + percent + " %";
    const double seconds = progress.elapsed.count();
    if (seconds > 0 && share > 0) {
        text += "  " + rate_text(share * static_cast<double>(progress.bytes_total) / seconds);
    }
    if (progress.left) text += "  " + std::to_string(progress.left->count()) + " s left";
    return text;
}

std::string address_text(const std::string& host, std::uint16_t port) {
    std::string name = listens_wide(host) ? "localhost" : host;
    if (name.find(':') != std::string::npos) name = "[" + name + "]";
    return "http://" + name + ":" + std::to_string(port);
}

std::string ready_text(const ReadyFacts& facts) {
    const std::string address = address_text(facts.host, facts.port);
    std::string text = "Strata serves " + facts.model + ", context " +
                       std::to_string(facts.context_tokens) + " tokens.\n";
    text += facts.has_page ? "  Chat in a browser:  " + address + "/\n" : "";
    text += "  OpenAI base URL:    " + address + "/v1\n";
    text += facts.key_set ? "  API key:            needed (Authorization: Bearer KEY)\n"
                          : "  API key:            none is set\n";
    if (listens_wide(facts.host) && !facts.key_set) {
        text +=
            "  Everybody who reaches this machine may use it: set --api-key, or leave --host "
            "out.\n";
    }
    text += "  End with Ctrl-C.\n";
    return text;
}

}  // namespace strata::serve
