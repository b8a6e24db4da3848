// See transfer.hpp.
#include "engine/state/transfer.hpp"

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <utility>

namespace strata {

namespace {

// Copied, then hashed, before the next one: half of the smallest second-level cache that servers
// have had for years, for the source and the copy share it.
constexpr std::size_t kPartBytes = std::size_t{256} << 10;

// The same of a copy that the device makes: short against the last-level cache, long against what
// starting a copy costs.
constexpr std::size_t kAsidePartBytes = std::size_t{4} << 20;

// A thread costs about 50 us to start; fewer bytes than this are moved sooner by one.
constexpr std::size_t kThreadedBytesMin = std::size_t{2} << 20;

// Neighbours that lie in one large page of the system are one thread's: two that touch a fresh one
// first both have it cleared.
constexpr std::size_t kNeighbourBytes = std::size_t{2} << 20;

// Calls visit(offset from the beginning of all pieces, part).
template <class Visit>
void for_each_part(Pieces pieces, std::size_t most, const Visit& visit) {
    std::size_t offset = 0;
    for (const auto& piece : pieces) {
        for (std::size_t done = 0; done < piece.size();) {
            const std::size_t count = std::min(most, piece.size() - done);
            visit(offset, piece.subspan(done, count));
            done += count;
            offset += count;
        }
    }
}

// Of a blob's bytes [begin, end), end may lie beyond them: what is to be copied.
void add_copies(const Moved& blob, std::size_t begin, std::size_t end,
                std::vector<HostCopy>& copies) {
    auto* const to = static_cast<std::byte*>(blob.on_device);
    std::size_t at = 0;
    for (const auto& piece : blob.pieces) {
        const std::size_t from = std::clamp(begin, at, at + piece.size());
        const std::size_t upto = std::clamp(end, at, at + piece.size());
        if (from < upto) copies.push_back({to + from, piece.data() + (from - at), upto - from});
        at += piece.size();
    }
}

std::vector<Pieces> pieces_of(std::span<const Moved> blobs) {
    std::vector<Pieces> pieces;
    pieces.reserve(blobs.size());
    for (const Moved& each : blobs) pieces.push_back(each.pieces);
    return pieces;
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

Digest128 copy_to_pieces_aside(Device& device, const void* from_device, Pieces pieces) {
    const auto* from = static_cast<const std::byte*>(from_device);
    BlobDigest sum;
    for_each_part(pieces, kAsidePartBytes, [&](std::size_t offset, std::span<std::byte> part) {
        device.copy_to_host_aside(part.data(), from + offset, part.size());
        sum.add(part);
    });
    return sum.digest();
}

std::vector<Digest128> copy_to_pieces(Device& device, std::span<const Moved> blobs,
                                      const TransferStep& step) {
    const auto pieces = pieces_of(blobs);
    BlockList blocks(pieces);
    const auto copy = [&](std::size_t i) {
        const auto* from = static_cast<const std::byte*>(blobs[blocks.blob_of(i)].on_device);
        ByteSum sum;
        blocks.for_each_part(i, kPartBytes, [&](std::size_t offset, std::span<std::byte> part) {
            device.copy_to_host(part.data(), from + offset, part.size());
            sum.add(part);
        });
        blocks.set_sum(i, sum.digest());
    };
    for_each_at_once(blocks.size(), blocks.bytes(), transfer_threads(device), copy, step);
    return blocks.digests();
}

CopiesFromHost::CopiesFromHost(Device& device, std::span<const Moved> first,
                               std::span<const Moved> pages, std::span<const std::size_t> cuts)
    : device_(&device), began_(std::chrono::steady_clock::now()) {
    std::vector<HostCopy> copies;
    std::vector<CopyStage> stages;
    for (const Moved& blob : first) add_copies(blob, 0, SIZE_MAX, copies);
    std::size_t below = 0;
    for (const std::size_t cut : cuts) {
        for (const Moved& page : pages) add_copies(page, below, cut, copies);
        stages.push_back({copies.size(), cut});
        below = cut;
    }
    device.start_copies_from_host(copies, stages);
}

CopiesFromHost::~CopiesFromHost() {
    try {
        if (device_ != nullptr) finish();
    } catch (const std::exception&) {
        // Another failure is on its way already.
    }
}

std::chrono::steady_clock::time_point CopiesFromHost::finish() {
    const std::chrono::duration<double, std::milli> took(
        std::exchange(device_, nullptr)->finish_copies());
    return began_ + std::chrono::duration_cast<std::chrono::steady_clock::duration>(took);
}

void copy_from_pieces(Device& device, std::span<const Moved> blobs, const TransferStep& step) {
    if (device.copies_aside()) {
        CopiesFromHost(device, blobs).finish();
        return;
    }
    const auto pieces = pieces_of(blobs);
    const BlockList blocks(pieces);
    const auto copy = [&](std::size_t i) {
        auto* to = static_cast<std::byte*>(blobs[blocks.blob_of(i)].on_device);
        blocks.for_each_part(i, kDigestBlockBytes, [&](std::size_t offset, auto part) {
            device.copy_from_host(to + offset, part.data(), part.size());
        });
    };
    for_each_at_once(blocks.size(), blocks.bytes(), transfer_threads(device), copy, step);
}

std::vector<Digest128> digests_of(std::span<const Pieces> blobs, int threads,
                                  const TransferStep& step) {
    BlockList blocks(blobs);
    const auto sum_up = [&](std::size_t i) {
        ByteSum sum;
        blocks.for_each_part(i, kDigestBlockBytes, [&](std::size_t, auto part) { sum.add(part); });
        blocks.set_sum(i, sum.digest());
    };
    for_each_at_once(blocks.size(), blocks.bytes(), threads, sum_up, step);
    return blocks.digests();
}

bool device_equals(Device& device, const void* on_device, Pieces pieces) {
    const auto* from = static_cast<const std::byte*>(on_device);
    std::vector<std::byte> staging(kPartBytes);
    bool equal = true;
    for_each_part(pieces, kPartBytes, [&](std::size_t offset, std::span<std::byte> part) {
        device.copy_to_host(staging.data(), from + offset, part.size());
        equal = equal && std::memcmp(staging.data(), part.data(), part.size()) == 0;
    });
    return equal;
}

void for_each_at_once(std::size_t count, std::size_t bytes, int threads,
                      const std::function<void(std::size_t)>& work, const TransferStep& step) {
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
