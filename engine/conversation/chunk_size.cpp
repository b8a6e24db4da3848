// See core/chunk_size.hpp.
#include "strata/core/chunk_size.hpp"

#include <algorithm>

namespace strata {

namespace {

// `size` halved until a chunk of it is expected to stay within the aim.
std::int64_t halved_to_aim(std::int64_t size, double ms_per_token, double aim_ms) {
    while (size > 1 && ms_per_token * static_cast<double>(size) > aim_ms) size /= 2;
    return size;
}

}  // namespace

std::int64_t first_chunk_tokens(std::int64_t read, double ms, const ChunkLimits& limits) {
    if (limits.time_max_ms <= 0 || read <= 0) return limits.tokens_max;
    return halved_to_aim(limits.tokens_max, ms / static_cast<double>(read),
                         limits.time_max_ms * kChunkAimShare);
}

std::int64_t next_chunk_tokens(std::int64_t now, std::int64_t read, double ms,
                               const ChunkLimits& limits) {
    if (limits.time_max_ms <= 0 || read <= 0) return now;
    const double aim_ms = limits.time_max_ms * kChunkAimShare;
    if (ms > limits.time_max_ms) return halved_to_aim(now, ms / static_cast<double>(read), aim_ms);
    // A short chunk (a prompt's end, a cut) tells too little about a long one.
    if (read < now || 2 * ms > aim_ms) return now;
    return std::min(2 * now, limits.tokens_max);
}

Position chunk_end(Position first, std::int64_t chunk_tokens, Position end) {
    return std::min(end, (first / chunk_tokens + 1) * chunk_tokens);
}

}  // namespace strata
