// Names for pieces of host memory, and the ledger of who refers to them. The policy counts by name;
// whoever owns the bytes (engine/state) frees what the ledger says has left. No byte is touched
// here.
//
// A blob is one piece of host memory that never changes once it is filled: the host copy of one K/V
// page, or the image of a running state. Its number is never used again within an epoch, so a
// number that has left the ledger can never come to mean something else.
//
// Invariants of the ledger: (1) a row is there exactly while its count is above zero; (2) rows are
// in ascending order of id, each once; (3) bytes() is the sum of the rows' bytes: unique bytes,
// however many refer to them; (4) a step that throws (no memory) leaves the ledger as it was.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace strata {

enum class HostBlobId : std::uint64_t { none = 0 };

struct HostBlob {
    HostBlobId id = HostBlobId::none;  // none: there is no blob here (and bytes is 0)
    std::uint64_t bytes = 0;
    // In host memory already, though nobody may count it yet (a checkpoint image of the live
    // conversation). Capturing such a blob takes no new RAM.
    bool resident = false;
    friend bool operator==(const HostBlob&, const HostBlob&) = default;
};

class HostLedger {
  public:
    struct Row {
        HostBlobId id = HostBlobId::none;
        std::uint64_t bytes = 0;
        std::uint32_t count = 0;  // holders that refer to it
        friend bool operator==(const Row&, const Row&) = default;
    };

    // One more holder refers to each of `blobs`. Precondition: ids ascending, each once, none of
    // them HostBlobId::none (holder_blobs() makes such a list); a known id has the known size.
    void add(std::span<const HostBlob> blobs);
    // A holder refers to `ids` no longer; what nobody refers to leaves. Allocates nothing.
    // Precondition: ids ascending, each once, each known.
    void remove(std::span<const HostBlobId> ids) noexcept;

    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    // Holders of `id`; 0 when it is not known.
    [[nodiscard]] std::uint32_t count(HostBlobId id) const;
    [[nodiscard]] std::span<const Row> rows() const { return rows_; }

    friend bool operator==(const HostLedger&, const HostLedger&) = default;

  private:
    std::vector<Row> rows_;
    std::uint64_t bytes_ = 0;
};

// `blobs` as one holder's list: ascending by id, each once, without HostBlobId::none.
[[nodiscard]] std::vector<HostBlob> holder_blobs(std::vector<HostBlob> blobs);

}  // namespace strata
