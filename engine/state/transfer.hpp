// Moves bytes between a device and pieces of host memory, and sums them up on the way: a block is
// hashed while it is still in the processor's own memory. Several blobs move at once, each on one
// thread. Knows no blob and no session.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "strata/backend/device.hpp"
#include "strata/state/snapshot_stamp.hpp"

namespace strata {

// More threads move no more bytes: two saturate the memory of a small machine, four that of a large
// one.
inline constexpr int kTransferThreadsMax = 4;
// Beside a device that copies by itself they only sum up, and must keep pace with 55 GB/s: one does
// about 10.
inline constexpr int kSummingThreadsMax = 12;

// How many threads of the host work on bytes that come from or go to this device.
[[nodiscard]] int transfer_threads(const Device& device);

// The same memory of the device as `pieces` hold, in order.
[[nodiscard]] Digest128 copy_to_pieces(Device& device, const void* from_device,
                                       std::span<const std::span<std::byte>> pieces);
// The same on any thread, of a device that copies by itself: its work has happened.
[[nodiscard]] Digest128 copy_to_pieces_aside(Device& device, const void* from_device,
                                             std::span<const std::span<std::byte>> pieces);
void copy_from_pieces(Device& device, void* to_device,
                      std::span<const std::span<std::byte>> pieces);
[[nodiscard]] Digest128 digest_of(std::span<const std::span<std::byte>> pieces);
// True when the device holds the same bytes as `pieces`.
[[nodiscard]] bool device_equals(Device& device, const void* on_device,
                                 std::span<const std::span<std::byte>> pieces);

// Calls work(0) to work(count - 1), each once, on up to `threads` threads, the caller's among them.
// What a call throws first is thrown here when all threads have ended; calls that have not begun
// then are left out. `bytes` of all calls together decide whether more than one thread is worth it.
// `step`, unless it is empty, is called on the
// caller's thread at least once, and again between its calls.
void for_each_at_once(std::size_t count, std::size_t bytes, int threads,
                      const std::function<void(std::size_t)>& work,
                      const std::function<void()>& step = {});

}  // namespace strata
