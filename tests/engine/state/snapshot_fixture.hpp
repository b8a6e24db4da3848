// What tests of snapshots share: segments that fail when told to, a device that fails at a copy,
// and a stage on which conversations are read, parked into a small set of books, and brought back.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "../../support/fake_runner.hpp"
#include "strata/state/live_session.hpp"

namespace strata::tests {

// Segments of the heap, each checked: what is unmapped was mapped, what is discarded is poisoned.
// Unlike the system's they are not zeroed: whoever takes a piece fills all of it.
class CountedSegments : public HostSegments {
  public:
    ~CountedSegments() override;
    Result<std::byte*> map(std::size_t bytes) override;
    void unmap(std::byte* at, std::size_t bytes) noexcept override;
    void discard(std::byte* at, std::size_t bytes) noexcept override;

    [[nodiscard]] std::size_t mapped_bytes() const { return mapped_bytes_; }
    [[nodiscard]] std::size_t segments() const { return sizes_.size(); }
    std::int64_t maps = 0;
    std::int64_t discards = 0;
    std::optional<std::int64_t> fails_at;  // this map() call, counted from 0
    std::size_t largest = 0;

  private:
    std::map<std::byte*, std::size_t> sizes_;
    std::size_t mapped_bytes_ = 0;
};

// The fake device, with copies that fail when told to and as many threads as a test wants.
class FailingDevice : public FakeDevice {
  public:
    DeviceFacts facts() const override { return {"fake", "none", 0, threads}; }
    void copy_to_host(void* to, const void* from_device, std::size_t bytes) override;
    void copy_from_host(void* to_device, const void* from, std::size_t bytes) override;
    bool lock_pages(void* at, std::size_t bytes) override;
    void unlock_pages(void* at, std::size_t bytes) noexcept override;

    int threads = 1;
    std::int64_t copies = 0;
    std::uint64_t bytes_out = 0;           // copied to the host
    std::optional<std::int64_t> fails_at;  // this copy throws, counted from 0
    bool locks = false;
    std::set<void*> locked;

  private:
    void count_copy();
};

// What the policy's books would be, reduced to counts: which images are parked and who names what.
class Books {
  public:
    void add(const ConversationImage& image);
    // The ids that nobody names any more, ascending.
    [[nodiscard]] std::vector<HostBlobId> remove(const ConversationImage& image);
    [[nodiscard]] bool names(HostBlobId id) const { return counts_.contains(id); }
    [[nodiscard]] std::uint64_t bytes() const;

  private:
    std::map<HostBlobId, std::pair<std::uint64_t, int>> counts_;
};

struct SnapshotStage {
    explicit SnapshotStage(bool recurrent);

    // Ids that depend on `seed` alone.
    static TokenIds ids(std::int64_t count, std::uint64_t seed);
    void read(const TokenIds& more, std::int64_t chunk = 64);
    // As the engine does: describe, capture, into the books.
    ConversationImage park(std::uint64_t conversation);
    Result<CaptureFigures> try_park(ConversationImage& image);
    // As the engine does when an entry leaves the table.
    void drop(const ConversationImage& image);
    RestoreOutcome restore(const ConversationImage& image, Position position);
    // Nothing names anything any more: what is left then is a leak.
    void expect_nothing_left();

    std::shared_ptr<FailingDevice> device;
    FakeRunner runner;
    CountedSegments segments;
    BlobStore store;
    std::unique_ptr<LiveSession> session;
    Books books;
    std::vector<float> logits;
};

}  // namespace strata::tests
