// See state/blob_store.hpp.
#include "strata/state/blob_store.hpp"

#include <algorithm>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "engine/state/blob_filler.hpp"
#include "engine/state/segment_pool.hpp"
#include "strata/backend/device_fault.hpp"
#include "strata/core/invariant.hpp"

namespace strata {

BlobHold::BlobHold(BlobStore& store, const HostBlob& blob) noexcept : store_(&store), blob_(blob) {
    ++store.blobs_.find(blob.id)->second.holds;
}

BlobHold::BlobHold(const BlobHold& other) noexcept : store_(other.store_), blob_(other.blob_) {
    if (store_ != nullptr) ++store_->blobs_.find(blob_.id)->second.holds;
}

BlobHold::BlobHold(BlobHold&& other) noexcept
    : store_(std::exchange(other.store_, nullptr)), blob_(std::exchange(other.blob_, {})) {}

BlobHold& BlobHold::operator=(BlobHold other) noexcept {
    std::swap(store_, other.store_);
    std::swap(blob_, other.blob_);
    return *this;
}

BlobHold::~BlobHold() {
    if (store_ != nullptr) store_->release_hold(blob_.id);
}

BlobStore::BlobStore(HostSegments& segments, Device& device)
    : pool_(std::make_unique<SegmentPool>(segments, device)),
      filler_(std::make_unique<BlobFiller>(device, *pool_)) {}

BlobStore::~BlobStore() {
    end_filling();
    for (const auto& [id, blob] : blobs_) STRATA_INVARIANT(blob.holds == 0);
}

std::size_t BlobStore::mapped_bytes() const {
    return pool_->mapped_bytes();
}

void BlobStore::free_pieces(const BlobPieces& pieces) noexcept {
    for (const auto& piece : pieces) pool_->give_back(piece);
}

// A blob that is larger than a segment consists of several pieces.
Result<BlobPieces> BlobStore::take_pieces(std::uint64_t owner, std::uint64_t bytes,
                                          std::size_t alike) {
    BlobPieces pieces;
    pieces.reserve(static_cast<std::size_t>(bytes / kSegmentBytesMax + 1));
    for (std::uint64_t done = 0; done < bytes;) {
        const auto piece =
            static_cast<std::size_t>(std::min<std::uint64_t>(bytes - done, kSegmentBytesMax));
        Result<std::span<std::byte>> taken = refuse_memory({});
        try {
            taken = pool_->take(owner, piece, alike);
        } catch (const std::bad_alloc&) {
            taken = refuse_memory("no memory");  // short: it must not need any
        }
        if (!taken) {
            free_pieces(pieces);
            return taken.failure();
        }
        pieces.push_back(*taken);
        done += piece;
    }
    return pieces;
}

Status<> BlobStore::allocate(std::uint64_t owner, std::span<const HostBlob> blobs) {
    std::vector<HostBlobId> made;
    try {
        made.reserve(blobs.size());
        for (std::size_t i = 0; i < blobs.size(); ++i) {
            const HostBlob& blob = blobs[i];
            STRATA_INVARIANT(blob.id != HostBlobId::none && blob.bytes > 0);
            const auto alike =
                std::count_if(blobs.begin() + static_cast<std::ptrdiff_t>(i), blobs.end(),
                              [&blob](const HostBlob& later) { return later.bytes == blob.bytes; });
            const auto [place, is_new] = blobs_.try_emplace(blob.id);
            STRATA_INVARIANT(is_new);
            made.push_back(blob.id);
            auto pieces = take_pieces(owner, blob.bytes, static_cast<std::size_t>(alike));
            if (!pieces) {
                discard(made);
                return pieces.failure();
            }
            place->second.bytes = blob.bytes;
            place->second.pieces = std::move(pieces).value();
            bytes_ += blob.bytes;
        }
    } catch (const std::bad_alloc&) {
        discard(made);
        return refuse_memory("no memory");  // short: it must not need any
    }
    return Done{};
}

const BlobPieces& BlobStore::pieces(HostBlobId id) const {
    const auto found = blobs_.find(id);
    STRATA_INVARIANT(found != blobs_.end() && !found->second.sealed);
    return found->second.pieces;
}

void BlobStore::seal(HostBlobId id, const BlobStamp& stamp, const Digest128& checksum) {
    const auto found = blobs_.find(id);
    STRATA_INVARIANT(found != blobs_.end() && !found->second.sealed);
    found->second.stamp = stamp;
    found->second.checksum = checksum;
    found->second.sealed = true;
}

void BlobStore::fill_later(std::span<const DeviceFill> fills) {
    std::vector<Fill> begun;
    begun.reserve(fills.size());
    for (const DeviceFill& each : fills) begun.push_back({each.id, pieces(each.id), each.from});
    filler_->begin(begun);
    for (const DeviceFill& each : fills) {
        StoredBlob& blob = blobs_.find(each.id)->second;
        blob.stamp = each.stamp;
        blob.filling = true;
    }
}

// Precondition: it is filling.
void BlobStore::settle(HostBlobId id, bool wait) {
    const std::optional<Filled> end = filler_->take(id, wait);
    if (!end) return;
    StoredBlob& blob = blobs_.find(id)->second;
    blob.filling = false;
    if (!end->fault) {
        blob.checksum = end->sum;
        blob.sealed = true;
        return;
    }
    try {
        std::rethrow_exception(end->fault);
    } catch (const DeviceFault&) {
        throw;
    } catch (const std::exception&) {
        // It stays unsealed: a check of its image finds that it is not there.
    }
}

bool BlobStore::filling(HostBlobId id) {
    const auto found = blobs_.find(id);
    if (found == blobs_.end() || !found->second.filling) return false;
    settle(id, false);
    return found->second.filling;
}

void BlobStore::await(HostBlobId id) {
    const auto found = blobs_.find(id);
    if (found != blobs_.end() && found->second.filling) settle(id, true);
}

void BlobStore::pause_filling(bool paused) {
    filler_->pause(paused);
}

void BlobStore::end_filling() noexcept {
    for (auto& [id, blob] : blobs_) {
        if (!std::exchange(blob.filling, false)) continue;
        filler_->cancel(id);
    }
}

std::uint64_t BlobStore::filling_bytes() const {
    return filler_->waiting_bytes();
}

void BlobStore::free_if_unnamed(HostBlobId id) noexcept {
    const auto found = blobs_.find(id);
    if (found == blobs_.end()) return;
    const StoredBlob& blob = found->second;
    if (blob.booked || blob.holds > 0) return;
    if (blob.filling) filler_->cancel(id);
    free_pieces(blob.pieces);
    bytes_ -= blob.bytes;
    blobs_.erase(found);
}

void BlobStore::discard(std::span<const HostBlobId> ids) noexcept {
    for (const HostBlobId id : ids) free_if_unnamed(id);
}

const StoredBlob* BlobStore::find(HostBlobId id) const {
    const auto found = blobs_.find(id);
    return found == blobs_.end() ? nullptr : &found->second;
}

BlobHold BlobStore::hold(HostBlobId id) {
    const StoredBlob* blob = find(id);
    STRATA_INVARIANT(blob != nullptr);
    return BlobHold(*this, HostBlob{id, blob->bytes, true});
}

void BlobStore::release_hold(HostBlobId id) noexcept {
    const auto found = blobs_.find(id);
    STRATA_INVARIANT(found != blobs_.end() && found->second.holds > 0);
    --found->second.holds;
    free_if_unnamed(id);
}

void BlobStore::book(std::span<const HostBlob> blobs) noexcept {
    for (const HostBlob& blob : blobs) {
        if (blob.id == HostBlobId::none) continue;
        const auto found = blobs_.find(blob.id);
        STRATA_INVARIANT(found != blobs_.end() && (found->second.sealed || found->second.filling));
        found->second.booked = true;
    }
}

void BlobStore::leave(std::span<const HostBlobId> ids) noexcept {
    for (const HostBlobId id : ids) {
        const auto found = blobs_.find(id);
        if (found == blobs_.end()) continue;
        found->second.booked = false;
        free_if_unnamed(id);
    }
}

void BlobStore::sweep(const std::function<bool(HostBlobId)>& named) {
    for (auto next = blobs_.begin(); next != blobs_.end();) {
        const auto blob = next++;  // freeing takes this one away
        if (!blob->second.booked || named(blob->first)) continue;
        blob->second.booked = false;
        free_if_unnamed(blob->first);
    }
}

}  // namespace strata
