// Who owns the bytes behind HostBlobId (core/host_blob.hpp): host copies of K/V pages and images of
// running states. Each is filled once, sealed with a checksum and a stamp, and never changed.
//
// A blob lives while somebody names it:
//   the books   book() when the policy begins to name it, leave() when BookChange::left says that
//               it does so no longer
//   holds       BlobHold: a live session's checkpoints and clean pages
//
//   announce() -> (named, no memory) -> allocate() -> (unsealed) -> seal() -> (immutable) -> freed
//                                           fill_later() -> (filling) -> await() --^
//
// fill_later() is for a device that copies by itself: other threads copy and sum up. A blob that is
// filling may be named like any other; whoever needs its bytes waits for them first, and freeing it
// ends the copy.
//
// Invariants: (1) a blob is freed in the moment in which neither the books nor a hold name it; its
// memory leaves the process at once, unless it is a part of a page-locked segment, which leaves as
// a whole; (2) sealed bytes never change; (3) allocate() gives memory to all or to none; (4) a
// number is never used twice; (5) no call takes memory from an existing blob.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <unordered_map>
#include <vector>

#include "strata/backend/device.hpp"
#include "strata/core/host_blob.hpp"
#include "strata/core/result.hpp"
#include "strata/state/host_segments.hpp"
#include "strata/state/snapshot_stamp.hpp"

namespace strata {

class BlobFiller;
class BlobStore;
class SegmentPool;

// One name that keeps a blob alive. Copyable: a copy names it once more. Must not outlive the
// store.
class BlobHold {
  public:
    BlobHold() = default;
    BlobHold(const BlobHold& other) noexcept;
    BlobHold(BlobHold&& other) noexcept;
    BlobHold& operator=(BlobHold other) noexcept;
    ~BlobHold();
    explicit operator bool() const { return store_ != nullptr; }
    [[nodiscard]] HostBlobId id() const { return blob_.id; }
    [[nodiscard]] const HostBlob& blob() const { return blob_; }  // resident

  private:
    friend class BlobStore;
    BlobHold(BlobStore& store, const HostBlob& blob) noexcept;

    BlobStore* store_ = nullptr;
    HostBlob blob_;
};

// The bytes of a blob, one piece after the other.
using BlobPieces = std::vector<std::span<std::byte>>;

struct StoredBlob {
    std::uint64_t bytes = 0;
    BlobPieces pieces;
    BlobStamp stamp;
    Digest128 checksum;
    std::uint32_t holds = 0;
    bool booked = false;
    bool sealed = false;
    bool filling = false;
};

// An unsealed blob whose bytes are on the device.
struct DeviceFill {
    HostBlobId id = HostBlobId::none;
    const void* from = nullptr;
    BlobStamp stamp;
};

class BlobStore {
  public:
    // `device` is asked to page-lock segments. Both must outlive the store.
    BlobStore(HostSegments& segments, Device& device);
    ~BlobStore();
    BlobStore(const BlobStore&) = delete;
    BlobStore& operator=(const BlobStore&) = delete;

    // A name for a blob to come; costs nothing if nothing comes.
    [[nodiscard]] HostBlobId announce() { return HostBlobId{++last_id_}; }

    // Memory for announced blobs; `owner` is the conversation, whose blobs lie in segments of its
    // own. The blobs are neither booked nor held then, and stay until they are, or are discarded.
    // On refusal nothing changed. Precondition: none of the ids is known.
    [[nodiscard]] Status<> allocate(std::uint64_t owner, std::span<const HostBlob> blobs);
    // Where to write. Precondition: allocated and not sealed.
    [[nodiscard]] const BlobPieces& pieces(HostBlobId id) const;
    void seal(HostBlobId id, const BlobStamp& stamp, const Digest128& checksum);
    // Seals these blobs when their bytes have come. What wrote them on the device has happened;
    // until filling() denies it nobody writes there. Throws std::bad_alloc, and then nothing has
    // begun. Precondition: the device copies_aside(); allocated and not sealed.
    void fill_later(std::span<const DeviceFill> fills);
    // The device's copy of it may be read still. Throws DeviceFault when that failed.
    [[nodiscard]] bool filling(HostBlobId id);
    // Waits while it is filling. It is sealed then, but for a copy that failed: without a
    // DeviceFault, which is thrown, it stays unsealed for ever.
    void await(HostBlobId id);
    // While it is paused only copies that somebody waits for begin: locking memory holds up whoever
    // else asks the device's driver for something.
    void pause_filling(bool paused);
    // No copy goes on then; what was filling stays unsealed for ever.
    void end_filling() noexcept;
    // Of blobs that are filling: what the OS has not been asked for yet.
    [[nodiscard]] std::uint64_t filling_bytes() const;
    // Frees what is neither booked nor held; unknown ids are ignored.
    void discard(std::span<const HostBlobId> ids) noexcept;

    // Null when there is no such blob.
    [[nodiscard]] const StoredBlob* find(HostBlobId id) const;
    // Precondition: the blob exists.
    [[nodiscard]] BlobHold hold(HostBlobId id);

    // The policy's books name these. Precondition: each exists and is sealed or filling, or is
    // none.
    void book(std::span<const HostBlob> blobs) noexcept;
    // BookChange::left: they do so no longer. Unknown ids (announced, never allocated) are ignored.
    void leave(std::span<const HostBlobId> ids) noexcept;
    // After a failure: takes every blob that `named` denies out of the books.
    void sweep(const std::function<bool(HostBlobId)>& named);

    [[nodiscard]] std::size_t blobs() const { return blobs_.size(); }
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }  // of all blobs
    [[nodiscard]] std::size_t mapped_bytes() const;               // of their segments

  private:
    friend class BlobHold;
    void release_hold(HostBlobId id) noexcept;
    void free_if_unnamed(HostBlobId id) noexcept;
    void free_pieces(const BlobPieces& pieces) noexcept;
    Result<BlobPieces> take_pieces(std::uint64_t owner, std::uint64_t bytes, std::size_t alike);

    void settle(HostBlobId id, bool wait);

    std::unique_ptr<SegmentPool> pool_;
    std::unique_ptr<BlobFiller> filler_;
    std::unordered_map<HostBlobId, StoredBlob> blobs_;
    std::uint64_t bytes_ = 0;
    std::uint64_t last_id_ = 0;
};

}  // namespace strata
