// See transfer.hpp.
#include "engine/state/transfer.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>

#define XXH_STATIC_LINKING_ONLY  // the state of a sum as a value
#include <xxhash.h>

namespace strata {

namespace {

// Copied, then hashed, before the next one: half of the smallest second-level cache that servers
// have had for years, for the source and the copy share it.
constexpr std::size_t kBlockBytes = std::size_t{256} << 10;

// The same of a copy that the device makes: short against the last-level cache, long against what
// starting a copy costs.
constexpr std::size_t kAsideBlockBytes = std::size_t{4} << 20;

// A thread costs about 50 us to start; fewer bytes than this are moved sooner by one.
constexpr std::size_t kThreadedBytesMin = std::size_t{2} << 20;

// Neighbours that lie in one large page of the system are one thread's: two that touch a fresh one
// first both have it cleared.
constexpr std::size_t kNeighbourBytes = std::size_t{2} << 20;

class Summer {
  public:
    Summer() { XXH3_128bits_reset(&state_); }
    void add(const void* bytes, std::size_t count) { XXH3_128bits_update(&state_, bytes, count); }
    Digest128 digest() const {
        const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
        return {hash.low64, hash.high64};
    }

  private:
    XXH3_state_t state_;
};

// Calls visit(offset from the beginning of all pieces, block).
template <class Visit>
void for_each_block(std::span<const std::span<std::byte>> pieces, const Visit& visit,
                    std::size_t block_bytes = kBlockBytes) {
    std::size_t offset = 0;
    for (const auto& piece : pieces) {
        for (std::size_t done = 0; done < piece.size();) {
            const std::size_t count = std::min(block_bytes, piece.size() - done);
            visit(offset, piece.subspan(done, count));
            done += count;
            offset += count;
        }
    }
}

// The work that several threads share.
struct Shared {
    std::size_t count;
    std::size_t at_a_time;
    const std::function<void(std::size_t)>& work;
    std::atomic<std::size_t> next = 0;
    std::atomic<bool> failed = false;
    std::mutex mutex;
    std::exception_ptr fault;  // guarded by mutex

    void run(const std::function<void()>& step) noexcept {
        while (!failed) {
            try {
                if (step) step();
                const std::size_t first = next.fetch_add(at_a_time);
                if (first >= count) return;
                const std::size_t end = std::min(first + at_a_time, count);
                for (std::size_t i = first; i < end && !failed; ++i) work(i);
            } catch (...) {
                const std::lock_guard lock(mutex);
                if (!failed.exchange(true)) fault = std::current_exception();
            }
        }
    }
};

}  // namespace

int transfer_threads(const Device& device) {
    if (!device.copies_aside()) return std::min(device.facts().threads, kTransferThreadsMax);
    return std::clamp(static_cast<int>(std::thread::hardware_concurrency()), 1, kSummingThreadsMax);
}

Digest128 copy_to_pieces_aside(Device& device, const void* from_device,
                               std::span<const std::span<std::byte>> pieces) {
    const auto* from = static_cast<const std::byte*>(from_device);
    Summer sum;
    for_each_block(
        pieces,
        [&](std::size_t offset, std::span<std::byte> block) {
            device.copy_to_host_aside(block.data(), from + offset, block.size());
            sum.add(block.data(), block.size());
        },
        kAsideBlockBytes);
    return sum.digest();
}

Digest128 copy_to_pieces(Device& device, const void* from_device,
                         std::span<const std::span<std::byte>> pieces) {
    const auto* from = static_cast<const std::byte*>(from_device);
    Summer sum;
    for_each_block(pieces, [&](std::size_t offset, std::span<std::byte> block) {
        device.copy_to_host(block.data(), from + offset, block.size());
        sum.add(block.data(), block.size());
    });
    return sum.digest();
}

void copy_from_pieces(Device& device, void* to_device,
                      std::span<const std::span<std::byte>> pieces) {
    auto* to = static_cast<std::byte*>(to_device);
    for (const auto& piece : pieces) {
        device.copy_from_host(to, piece.data(), piece.size());
        to += piece.size();
    }
}

Digest128 digest_of(std::span<const std::span<std::byte>> pieces) {
    Summer sum;
    for (const auto& piece : pieces) sum.add(piece.data(), piece.size());
    return sum.digest();
}

bool device_equals(Device& device, const void* on_device,
                   std::span<const std::span<std::byte>> pieces) {
    const auto* from = static_cast<const std::byte*>(on_device);
    std::vector<std::byte> staging(kBlockBytes);
    bool equal = true;
    for_each_block(pieces, [&](std::size_t offset, std::span<std::byte> block) {
        device.copy_to_host(staging.data(), from + offset, block.size());
        equal = equal && std::memcmp(staging.data(), block.data(), block.size()) == 0;
    });
    return equal;
}

void for_each_at_once(std::size_t count, std::size_t bytes, int threads,
                      const std::function<void(std::size_t)>& work,
                      const std::function<void()>& step) {
    if (count == 0) return;
    const std::size_t wanted =
        bytes < kThreadedBytesMin
            ? 1
            : std::min(count, static_cast<std::size_t>(std::clamp(threads, 1, kSummingThreadsMax)));
    const std::size_t neighbours = kNeighbourBytes / std::max<std::size_t>(bytes / count, 1);
    const std::size_t share = (count + wanted - 1) / wanted;
    const std::size_t at_a_time = std::clamp<std::size_t>(neighbours, 1, share);
    Shared shared{count, at_a_time, work, 0, false, {}, nullptr};
    {
        std::vector<std::jthread> others;
        try {
            others.reserve(wanted);
            while (others.size() + 1 < wanted) others.emplace_back([&shared] { shared.run({}); });
        } catch (const std::system_error&) {
            // No thread to be had: the caller's does more.
        } catch (const std::bad_alloc&) {
        }
        shared.run(step);
    }
    if (shared.fault) std::rethrow_exception(shared.fault);
}

}  // namespace strata
