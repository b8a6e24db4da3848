// Carves pieces out of mapped segments. Each segment belongs to one owner (a conversation) and is
// cut into pieces of one size, so that what a conversation leaves behind are whole segments. Owns
// no content: who a piece's bytes belong to is state/blob_store's.
//
// Pages are locked when a segment is mapped, or, for a device that copies by itself, by
// lock_around() on another thread, before the first such copy.
//
// Invariants: (1) a segment is mapped exactly while one of its pieces is taken; (2) a free piece of
// a segment that is not page-locked has no memory behind it; (3) a piece lies within its segment
// and overlaps no other; (4) a refused take() changed nothing; (5) what lock_pages() locked is
// unlocked before it is unmapped.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <span>
#include <vector>

#include "strata/backend/device.hpp"
#include "strata/core/result.hpp"
#include "strata/state/host_segments.hpp"

namespace strata {

class SegmentPool {
  public:
    SegmentPool(HostSegments& segments, Device& device) : source_(&segments), device_(&device) {}
    ~SegmentPool();
    SegmentPool(const SegmentPool&) = delete;
    SegmentPool& operator=(const SegmentPool&) = delete;

    // A piece of `bytes` for `owner`, with whatever is in it. `alike` is how many pieces of this
    // size the owner is about to take, this one included: a new segment is made as large as they
    // need. Preconditions: 1 <= bytes <= kSegmentBytesMax; alike >= 1.
    Result<std::span<std::byte>> take(std::uint64_t owner, std::size_t bytes, std::size_t alike);
    // Precondition: it was taken here.
    void give_back(std::span<std::byte> piece) noexcept;

    // Locks the segment around a piece that is taken, unless that was tried before. On any thread:
    // nobody gives the piece back meanwhile.
    void lock_around(std::span<const std::byte> piece);

    [[nodiscard]] std::size_t mapped_bytes() const { return mapped_bytes_; }
    [[nodiscard]] std::size_t segments() const { return segments_.size(); }

  private:
    enum class Locking : std::uint8_t { untried, going_on, locked, refused };
    struct Segment {
        std::size_t bytes = 0;
        std::size_t piece_bytes = 0;  // a multiple of kHostPageBytes
        std::uint64_t owner = 0;
        Locking locking = Locking::untried;
        std::vector<bool> taken;  // by piece
        std::size_t free = 0;
    };
    Result<std::span<std::byte>> take_new(std::uint64_t owner, std::size_t bytes,
                                          std::size_t piece_bytes, std::size_t alike);

    HostSegments* source_;
    Device* device_;
    std::mutex mutex_;  // of segments_
    std::condition_variable locked_;
    std::map<std::byte*, Segment> segments_;  // by address
    std::vector<std::byte*> open_;            // of those with a free piece; has room for all
    std::size_t mapped_bytes_ = 0;
};

}  // namespace strata
