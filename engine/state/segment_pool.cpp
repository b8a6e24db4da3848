// See segment_pool.hpp.
#include "engine/state/segment_pool.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "strata/core/invariant.hpp"

namespace strata {

namespace {

std::size_t rounded_to_host_pages(std::size_t bytes) {
    return (bytes + kHostPageBytes - 1) / kHostPageBytes * kHostPageBytes;
}

}  // namespace

SegmentPool::~SegmentPool() {
    for (const auto& [at, segment] : segments_) {
        if (segment.locking == Locking::locked) device_->unlock_pages(at, segment.bytes);
        source_->unmap(at, segment.bytes);
    }
}

Result<std::span<std::byte>> SegmentPool::take(std::uint64_t owner, std::size_t bytes,
                                               std::size_t alike) {
    STRATA_INVARIANT(bytes >= 1 && bytes <= kSegmentBytesMax && alike >= 1);
    const std::size_t piece_bytes = rounded_to_host_pages(bytes);
    const std::lock_guard lock(mutex_);
    for (std::byte* at : open_) {
        Segment& segment = segments_.find(at)->second;
        if (segment.owner != owner || segment.piece_bytes != piece_bytes) continue;
        const auto hole = std::find(segment.taken.begin(), segment.taken.end(), false);
        const auto index = static_cast<std::size_t>(hole - segment.taken.begin());
        *hole = true;
        if (--segment.free == 0) std::erase(open_, at);
        return std::span(at + index * piece_bytes, bytes);
    }
    return take_new(owner, bytes, piece_bytes, alike);
}

Result<std::span<std::byte>> SegmentPool::take_new(std::uint64_t owner, std::size_t bytes,
                                                   std::size_t piece_bytes, std::size_t alike) {
    const std::size_t pieces = std::min(alike, kSegmentBytesMax / piece_bytes);
    Segment segment{piece_bytes * pieces, piece_bytes, owner, Locking::untried, {}, pieces - 1};
    segment.taken.assign(pieces, false);
    segment.taken.front() = true;
    // What can throw comes before the segment is mapped.
    std::map<std::byte*, Segment> made;
    made.emplace(nullptr, std::move(segment));
    auto node = made.extract(made.begin());
    open_.reserve(segments_.size() + 1);
    const auto mapped = source_->map(node.mapped().bytes);
    if (!mapped) return mapped.failure();
    node.key() = *mapped;
    if (!device_->copies_aside()) {
        node.mapped().locking =
            device_->lock_pages(*mapped, node.mapped().bytes) ? Locking::locked : Locking::refused;
    }
    mapped_bytes_ += node.mapped().bytes;
    if (pieces > 1) open_.push_back(*mapped);
    segments_.insert(std::move(node));
    return std::span(*mapped, bytes);
}

void SegmentPool::give_back(std::span<std::byte> piece) noexcept {
    const std::lock_guard lock(mutex_);
    auto found = segments_.upper_bound(piece.data());
    STRATA_INVARIANT(found != segments_.begin());
    --found;
    auto& [at, segment] = *found;
    const auto offset = static_cast<std::size_t>(piece.data() - at);
    const std::size_t index = offset / segment.piece_bytes;
    STRATA_INVARIANT(index < segment.taken.size() && segment.taken[index]);
    segment.taken[index] = false;
    if (++segment.free < segment.taken.size()) {
        if (segment.free == 1) open_.push_back(at);
        const bool may_be_locked =
            segment.locking == Locking::locked || segment.locking == Locking::going_on;
        if (!may_be_locked) source_->discard(piece.data(), segment.piece_bytes);
        return;
    }
    if (segment.locking == Locking::locked) device_->unlock_pages(at, segment.bytes);
    source_->unmap(at, segment.bytes);
    mapped_bytes_ -= segment.bytes;
    std::erase(open_, at);
    segments_.erase(found);
}

void SegmentPool::lock_around(std::span<const std::byte> piece) {
    std::unique_lock lock(mutex_);
    // The keys are addresses of memory that may be written, the piece is only looked for.
    auto found = segments_.upper_bound(const_cast<std::byte*>(piece.data()));
    STRATA_INVARIANT(found != segments_.begin());
    --found;
    auto& [at, segment] = *found;
    locked_.wait(lock, [&segment] { return segment.locking != Locking::going_on; });
    if (segment.locking != Locking::untried) return;
    segment.locking = Locking::going_on;
    lock.unlock();
    const bool done = device_->lock_pages(at, segment.bytes);
    lock.lock();
    segment.locking = done ? Locking::locked : Locking::refused;
    locked_.notify_all();
}

}  // namespace strata
