// How many prompt tokens one forward pass takes: as many as the model likes, unless a chunk then
// takes longer than a STOP may wait. A pure function of measurements.
#pragma once

#include <cstdint>

#include "strata/core/types.hpp"

namespace strata {

struct ChunkLimits {
    std::int64_t tokens_max = 512;
    double time_max_ms = 250.0;  // a STOP is seen within one chunk; 0 = the size never changes
};

// A shrunk chunk aims below the limit, and a size is doubled only when the double would still stay
// well below it: results round differently when chunk borders move, so the size moves rarely.
inline constexpr double kChunkAimShare = 0.8;

// The size to begin with, from one measured pass of `read` tokens: tokens_max halved until a chunk
// is expected to stay within the aim. Longer chunks are cheaper a token, so this errs on the short
// side.
[[nodiscard]] std::int64_t first_chunk_tokens(std::int64_t read, double ms,
                                              const ChunkLimits& limits);

// The size to use after a chunk of `read` tokens took `ms`, while `now` was the size in use.
[[nodiscard]] std::int64_t next_chunk_tokens(std::int64_t now, std::int64_t read, double ms,
                                             const ChunkLimits& limits);

// End of the chunk that begins at `first`: the next multiple of `chunk_tokens` counted from
// position 0 (so that borders do not depend on where reading resumed), but not beyond `end`.
[[nodiscard]] Position chunk_end(Position first, std::int64_t chunk_tokens, Position end);

}  // namespace strata
