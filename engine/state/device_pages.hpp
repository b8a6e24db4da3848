// Memory of the device that no session uses at present, and what is in it: pages and running states
// of conversations that were parked, so that one which comes back soon need not be copied, and a
// copy to the host can go on while the next conversation is read. Only for a device that copies by
// itself; of any other, nothing is kept here.
//
// Invariants: (1) an entry's bytes are those of the blob it names, unless it names none; (2) what
// is given away again is read by no copy; (3) new memory is asked for only while kDeviceSpareBytes
// stay free, unless there is no other way; (4) an entry without memory was given away, names no
// blob, and goes at the next look_again().
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "strata/backend/device.hpp"
#include "strata/core/host_blob.hpp"
#include "strata/core/result.hpp"
#include "strata/state/blob_store.hpp"

namespace strata {

// What is not taken for parked conversations: scratch of longer steps, and the libraries'.
inline constexpr std::size_t kDeviceSpareBytes = std::size_t{4} << 30;
// Many pages are cut out of one allocation: each costs the driver a call of some 100 us.
inline constexpr std::size_t kSlabBytes = std::size_t{512} << 20;
inline constexpr std::size_t kSlabPartsMax = 64;  // a small model's pages are not worth more

class DevicePages {
  public:
    DevicePages(Device& device, BlobStore& store) : device_(&device), store_(&store) {}

    // The memory that holds the bytes of `content`; absent: there is none.
    [[nodiscard]] std::optional<Buffer> take(HostBlobId content);
    // Where they are, to be copied from; null: nowhere.
    [[nodiscard]] const void* find(HostBlobId content) const;
    // `bytes` of memory with anything in it: nobody's, new, or what was kept longest, in this
    // order; waits for a copy when there is no other. Throws DeviceFault.
    [[nodiscard]] Result<Buffer> fresh(std::size_t bytes);
    // `content`: the blob of the same bytes, or none.
    void put(Buffer memory, HostBlobId content);

    // Before some fresh(): blobs may be gone meanwhile, or filled.
    void look_again();
    // Most bytes that are kept though no copy reads them.
    void limit(std::uint64_t bytes) { limit_bytes_ = bytes; }
    [[nodiscard]] bool keeps() const { return limit_bytes_ > 0; }
    // What nobody needs is given back to the device; what holds parked bytes stays.
    void release_unnamed();
    [[nodiscard]] bool has_unnamed() const;
    // All that is kept is nobody's, after the copies that read it.
    void forget();

  private:
    struct Entry {
        Buffer memory;
        HostBlobId content = HostBlobId::none;
    };
    Buffer give_away(std::size_t index);
    [[nodiscard]] std::size_t index_of(HostBlobId content) const;
    [[nodiscard]] bool unnamed(const Entry& entry) const;
    [[nodiscard]] bool room_for(std::size_t bytes);
    [[nodiscard]] std::optional<Buffer> cut_slab(std::size_t bytes);

    Device* device_;
    BlobStore* store_;
    std::vector<Entry> entries_;  // the longest kept first
    std::uint64_t limit_bytes_ = UINT64_MAX;
    std::size_t looked_at_ = 0;  // those before it are named, or of another size
    std::size_t taken_ = 0;      // where take() found one: a conversation's pages lie in order
};

}  // namespace strata
