#include "strata/model/memory_advice.hpp"

#include <algorithm>

namespace strata {
namespace {

constexpr std::uint64_t kBytesPerMib = std::uint64_t{1} << 20;
constexpr auto kRows = static_cast<std::uint64_t>(kPageTokens);

std::uint64_t pages_of(Position tokens) {
    return (static_cast<std::uint64_t>(std::max<Position>(tokens, 0)) + kRows - 1) / kRows;
}

// Rounded up, so that what is needed never reads as less than it is.
std::string mib(std::uint64_t bytes) {
    return std::to_string((bytes + kBytesPerMib - 1) / kBytesPerMib) + " MiB";
}

std::uint64_t kv_bytes(const KvChoice& kv, Position tokens) {
    return pages_of(tokens) * kRows * kv.bytes_per_token;
}

// Tokens that fit beside weights and the rest, in whole pages.
Position fitting_tokens(const DeviceMemoryNeed& need, const KvChoice& kv) {
    const std::uint64_t taken = need.weights_bytes + need.fixed_bytes;
    if (taken >= need.free_bytes || kv.bytes_per_token == 0) return 0;
    const std::uint64_t pages = (need.free_bytes - taken) / (kv.bytes_per_token * kRows);
    return static_cast<Position>(std::min(pages * kRows, pages_of(need.context_tokens) * kRows));
}

// The best of the others, when it allows more than `tokens`.
std::optional<KvChoice> better_kv(const DeviceMemoryNeed& need, Position tokens) {
    std::optional<KvChoice> best;
    for (const KvChoice& other : need.others) {
        const Position fits = fitting_tokens(need, other);
        if (fits <= tokens) continue;
        tokens = fits;
        best = other;
    }
    return best;
}

std::string choice_text(const DeviceMemoryNeed& need) {
    const Position fits = fitting_tokens(need, need.kv);
    const auto best = better_kv(need, fits);
    if (fits == 0 && !best) {
        return "no context fits: it takes a smaller model or quantisation, or a device with more "
               "memory free";
    }
    std::string out;
    if (fits > 0) out = "--max-context " + std::to_string(fits) + " fits";
    if (!best) return out;
    const Position more = std::min(fitting_tokens(need, *best), need.context_tokens);
    return out + (out.empty() ? "" : ", or ") + "--max-context " + std::to_string(more) +
           " with --kv " + kv_type_name(best->type) + (out.empty() ? " fits" : "");
}

}  // namespace

std::uint64_t needed_bytes(const DeviceMemoryNeed& need) {
    return need.weights_bytes + need.fixed_bytes + kv_bytes(need.kv, need.context_tokens);
}

std::string need_text(const DeviceMemoryNeed& need) {
    std::string parts;
    if (need.weights_bytes > 0) parts += "weights " + mib(need.weights_bytes) + ", ";
    if (need.fixed_bytes > 0) parts += "scratch and state " + mib(need.fixed_bytes) + ", ";
    return "needed are " + mib(needed_bytes(need)) + " of device memory (" + parts +
           kv_type_name(need.kv.type) + " K/V of " + std::to_string(need.context_tokens) +
           " tokens " + mib(kv_bytes(need.kv, need.context_tokens)) + ")";
}

std::optional<std::string> memory_advice(const DeviceMemoryNeed& need) {
    if (need.free_bytes == 0 || needed_bytes(need) <= need.free_bytes) return std::nullopt;
    return need_text(need) + ", free are " + std::to_string(need.free_bytes / kBytesPerMib) +
           " MiB; " + choice_text(need);
}

DeviceMemoryNeed growth_need(const Geometry& geometry, std::size_t pages_held, Position rows,
                             std::uint64_t free_bytes) {
    DeviceMemoryNeed need;
    need.context_tokens = rows;
    need.free_bytes = free_bytes == 0 ? 0 : free_bytes + pages_held * geometry.page_bytes();
    need.kv.bytes_per_token = geometry.kv_bytes_per_token();
    for (const KvChoice& choice : geometry.kv_choices) {
        if (choice.type == geometry.kv_type) {
            need.kv = choice;
        } else {
            need.others.push_back(choice);
        }
    }
    return need;
}

}  // namespace strata
