// Segments of host memory, mapped from Linux directly and not through malloc: what is freed leaves
// the process at once (state/host_segments.hpp). Keeps no list of what it mapped.
#pragma once

#include "strata/state/host_segments.hpp"

namespace strata {

class MappedSegments final : public HostSegments {
  public:
    Result<std::byte*> map(std::size_t bytes) override;
    void unmap(std::byte* at, std::size_t bytes) noexcept override;
    void discard(std::byte* at, std::size_t bytes) noexcept override;
};

}  // namespace strata
