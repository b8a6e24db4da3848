// Host memory in segments that are mapped from the OS directly, so that what is freed leaves the
// process. An interface: engine/host maps real memory, tests map memory that can fail. Which piece
// of a segment is whose is state/blob_store's.
#pragma once

#include <cstddef>

#include "strata/core/result.hpp"

namespace strata {

// The largest segment. Small enough that one piece that stays alive keeps little else mapped.
inline constexpr std::size_t kSegmentBytesMax = std::size_t{16} << 20;

// What the OS takes back singly: pieces of a segment begin on this boundary.
inline constexpr std::size_t kHostPageBytes = 4096;

class HostSegments {
  public:
    virtual ~HostSegments() = default;
    // `bytes` of memory on a kHostPageBytes boundary, all of which are about to be written.
    // Precondition: bytes is a multiple of kHostPageBytes and at most kSegmentBytesMax.
    virtual Result<std::byte*> map(std::size_t bytes) = 0;
    // Gives the whole segment back. `at` and `bytes` as they were mapped.
    virtual void unmap(std::byte* at, std::size_t bytes) noexcept = 0;
    // Gives back the memory of a part and leaves it mapped: it may be written again.
    virtual void discard(std::byte* at, std::size_t bytes) noexcept = 0;
};

}  // namespace strata
