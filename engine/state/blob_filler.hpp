// Fills blobs from a device that copies by itself, beside everything else: threads that page-lock a
// blob's memory, copy, and sum up. Knows no conversation; which blob is whose is blob_store's,
// which device memory may be written is the session's.
//
//   begin() -> waiting -> running -> done -> take()
//                  cancel() from each of them
//
// Invariants: (1) nothing reads a fill's device memory or writes its host memory before begin(), or
// after done or cancel(); (2) a fill is done once, by one thread; (3) all calls but the threads'
// own come from one thread.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "engine/state/segment_pool.hpp"
#include "strata/backend/device.hpp"
#include "strata/core/host_blob.hpp"
#include "strata/state/snapshot_stamp.hpp"

namespace strata {

// Memory is cleared, locked, copied into and summed up: four threads do that at about the rate of
// the device's own copies.
inline constexpr int kFillThreadsMax = 4;

struct Fill {
    HostBlobId id = HostBlobId::none;
    std::span<const std::span<std::byte>> pieces;  // must outlive the fill
    const void* from = nullptr;                    // on the device
};

struct Filled {
    Digest128 sum;
    std::exception_ptr fault;  // the bytes are not there
};

class BlobFiller {
  public:
    BlobFiller(Device& device, SegmentPool& pool) : device_(&device), pool_(&pool) {}
    // What is waiting is left; what is running ends.
    ~BlobFiller();
    BlobFiller(const BlobFiller&) = delete;
    BlobFiller& operator=(const BlobFiller&) = delete;

    // Throws std::bad_alloc, and then nothing has begun.
    void begin(std::span<const Fill> fills);
    // Of one that has begun: its end, once; `wait`: waits for it, else absent while it goes on.
    [[nodiscard]] std::optional<Filled> take(HostBlobId id, bool wait);
    // Waits when it is running.
    void cancel(HostBlobId id) noexcept;
    // While it is paused no fill begins but those that take() waits for.
    void pause(bool paused);
    // Bytes of fills that have no memory behind them yet, for all that is known.
    [[nodiscard]] std::uint64_t waiting_bytes() const;

  private:
    enum class Stage : std::uint8_t { waiting, running, done };
    struct Job {
        Fill fill;
        std::uint64_t bytes = 0;
        Stage stage = Stage::waiting;
        Filled end{};
    };
    void work(const std::stop_token& stop);
    // Of a waiting job: from waiting to done, the lock let go of while it is filled.
    void run(Job& job, std::unique_lock<std::mutex>& lock);
    void fill(Job& job) noexcept;
    void open_threads() noexcept;

    Device* device_;
    SegmentPool* pool_;
    mutable std::mutex mutex_;
    std::condition_variable_any changed_;
    std::map<HostBlobId, Job> jobs_;   // guarded by mutex_; a running one is its thread's
    std::deque<HostBlobId> order_;     // guarded by mutex_: those that wait, and cancelled ones
    std::uint64_t waiting_bytes_ = 0;  // guarded by mutex_
    bool paused_ = false;              // guarded by mutex_
    std::vector<std::jthread> threads_;
};

}  // namespace strata
