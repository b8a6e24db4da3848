// Moves bytes between a device and pieces of host memory, and sums them up on the way
// (state/blob_digest): a part is hashed while it is still in the processor's own memory. Threads
// share blobs by the blocks of their digests. Knows no blob store and no session.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "engine/state/blob_digest.hpp"
#include "strata/backend/device.hpp"

namespace strata {

// More threads move no more bytes: two saturate the memory of a small machine, four that of a large
// one.
inline constexpr int kTransferThreadsMax = 4;
// Beside a device that copies by itself they only sum up, and must keep pace with 55 GB/s: one does
// 7 to 10.
inline constexpr int kSummingThreadsMax = 12;

// How many threads of the host work on bytes that come from or go to this device.
[[nodiscard]] int transfer_threads(const Device& device);

// A blob's memory on the device and in pieces of the host.
struct Moved {
    void* on_device = nullptr;
    Pieces pieces;
};

// Called on the caller's thread now and then while bytes move or are summed up; may be empty.
using TransferStep = std::function<void()>;

// Each from the device into its pieces. The blobs' digests, in order.
[[nodiscard]] std::vector<Digest128> copy_to_pieces(Device& device, std::span<const Moved> blobs,
                                                    const TransferStep& step = {});
// The same of one, on any thread, of a device that copies by itself: its work has happened.
[[nodiscard]] Digest128 copy_to_pieces_aside(Device& device, const void* from_device,
                                             Pieces pieces);
// The device's own copies of blobs from the host, from here to finish(). They end before what they
// write or read may go.
class CopiesFromHost {
  public:
    explicit CopiesFromHost(Device& device, std::span<const Moved> blobs)
        : CopiesFromHost(device, blobs, {}, {}) {}
    // `first` as a whole, then of all pages what lies below the first of `cuts`, then from there to
    // the second one and so on: stages of Device::start_copies_from_host(). `cuts`: rising offsets
    // in a page, the last one its size.
    CopiesFromHost(Device& device, std::span<const Moved> first, std::span<const Moved> pages,
                   std::span<const std::size_t> cuts);
    ~CopiesFromHost();
    CopiesFromHost(const CopiesFromHost&) = delete;
    CopiesFromHost& operator=(const CopiesFromHost&) = delete;
    // Gives the time at which they had ended. Once.
    std::chrono::steady_clock::time_point finish();

  private:
    Device* device_;
    std::chrono::steady_clock::time_point began_;
};

// Each from its pieces to the device.
void copy_from_pieces(Device& device, std::span<const Moved> blobs, const TransferStep& step = {});
// The blobs' digests, in order.
[[nodiscard]] std::vector<Digest128> digests_of(std::span<const Pieces> blobs, int threads,
                                                const TransferStep& step = {});
// True when the device holds the same bytes as `pieces`.
[[nodiscard]] bool device_equals(Device& device, const void* on_device, Pieces pieces);

// Calls work(0) to work(count - 1), each once, on up to `threads` threads, the caller's among them.
// What a call throws first is thrown here when all threads have ended; calls that have not begun
// then are left out. `bytes` of all calls together decide whether more than one thread is worth it.
// `step`, unless it is empty, is called on the caller's thread at least once, and again between its
// calls.
void for_each_at_once(std::size_t count, std::size_t bytes, int threads,
                      const std::function<void(std::size_t)>& work, const TransferStep& step = {});

}  // namespace strata
