// See snapshot_fixture.hpp.
#include "snapshot_fixture.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include <catch2/catch.hpp>

namespace strata::tests {

CountedSegments::~CountedSegments() {
    CHECK(sizes_.empty());
    for (const auto& [at, bytes] : sizes_) std::free(at);
}

Result<std::byte*> CountedSegments::map(std::size_t bytes) {
    CHECK(bytes % kHostPageBytes == 0);
    CHECK(bytes <= kSegmentBytesMax);
    if (maps++ == fails_at) return refuse_memory("this segment is to fail");
    largest = std::max(largest, bytes);
    struct Free {
        void operator()(std::byte* at) const { std::free(at); }
    };
    std::unique_ptr<std::byte, Free> at(
        static_cast<std::byte*>(std::aligned_alloc(kHostPageBytes, bytes)));
    if (at == nullptr) std::abort();
    sizes_[at.get()] = bytes;  // may throw in tests of memory that ends
    mapped_bytes_ += bytes;
    return at.release();
}

void CountedSegments::unmap(std::byte* at, std::size_t bytes) noexcept {
    const auto found = sizes_.find(at);
    if (found == sizes_.end() || found->second != bytes) std::abort();
    sizes_.erase(found);
    mapped_bytes_ -= bytes;
    std::free(at);
}

void CountedSegments::discard(std::byte* at, std::size_t bytes) noexcept {
    auto found = sizes_.upper_bound(at);
    if (found == sizes_.begin()) std::abort();
    --found;
    if (at + bytes > found->first + found->second) std::abort();
    std::memset(at, 0xdb, bytes);
    ++discards;
}

void FailingDevice::count_copy() {
    if (fails_at && copies == *fails_at) {
        ++copies;
        throw std::runtime_error("this copy is to fail");
    }
    ++copies;
}

void FailingDevice::copy_to_host(void* to, const void* from_device, std::size_t bytes) {
    if (threads == 1) {
        count_copy();
        bytes_out += bytes;
    }
    FakeDevice::copy_to_host(to, from_device, bytes);
}

void FailingDevice::copy_from_host(void* to_device, const void* from, std::size_t bytes) {
    if (threads == 1) count_copy();
    FakeDevice::copy_from_host(to_device, from, bytes);
}

bool FailingDevice::lock_pages(void* at, std::size_t) {
    if (locks) locked.insert(at);
    return locks;
}

void FailingDevice::unlock_pages(void* at, std::size_t) noexcept {
    if (locked.erase(at) != 1) std::abort();
}

namespace {

std::vector<HostBlob> blobs_of(const ConversationImage& image) {
    std::map<HostBlobId, HostBlob> blobs;
    const auto add = [&blobs](const HostBlob& blob) {
        if (blob.id != HostBlobId::none) blobs.emplace(blob.id, blob);
    };
    for (const HostBlob& page : image.pages) add(page);
    for (const ImageCheckpoint& each : image.checkpoints) add(each.running_state);
    add(image.end_state);
    std::vector<HostBlob> out;
    for (const auto& [id, blob] : blobs) out.push_back(blob);
    return out;
}

}  // namespace

void Books::add(const ConversationImage& image) {
    for (const HostBlob& blob : blobs_of(image)) {
        auto& row = counts_[blob.id];
        row.first = blob.bytes;
        ++row.second;
    }
}

std::vector<HostBlobId> Books::remove(const ConversationImage& image) {
    std::vector<HostBlobId> left;
    for (const HostBlob& blob : blobs_of(image)) {
        const auto found = counts_.find(blob.id);
        REQUIRE(found != counts_.end());
        if (--found->second.second > 0) continue;
        counts_.erase(found);
        left.push_back(blob.id);
    }
    return left;
}

std::uint64_t Books::bytes() const {
    std::uint64_t bytes = 0;
    for (const auto& [id, row] : counts_) bytes += row.first;
    return bytes;
}

SnapshotStage::SnapshotStage(bool recurrent)
    : device(std::make_shared<FailingDevice>()),
      runner(FakeShape{recurrent, 97, 512}, device),
      store(segments, *device),
      session(LiveSession::open(runner, store).value()),
      logits(97) {}

TokenIds SnapshotStage::ids(std::int64_t count, std::uint64_t seed) {
    TokenIds out;
    std::uint64_t x = seed * 2654435761U + 1;
    for (std::int64_t i = 0; i < count; ++i) {
        x = x * 6364136223846793005U + 1442695040888963407U;
        out.push_back(static_cast<TokenId>(kFakeFirstText + (x >> 33) % 80));
    }
    return out;
}

void SnapshotStage::read(const TokenIds& more, std::int64_t chunk) {
    for (std::size_t done = 0; done < more.size();) {
        const auto count = std::min(static_cast<std::size_t>(chunk), more.size() - done);
        REQUIRE(session->reserve(session->frontier() + static_cast<Position>(count)).ok());
        REQUIRE(session->read(std::span(more).subspan(done, count), logits).ok());
        done += count;
    }
}

Result<CaptureFigures> SnapshotStage::try_park(ConversationImage& image) {
    session->describe(image);
    books.add(image);
    auto captured = session->capture(image);
    if (!captured) session->leave(books.remove(image));
    return captured;
}

ConversationImage SnapshotStage::park(std::uint64_t conversation) {
    ConversationImage image;
    image.conversation = conversation;
    REQUIRE(try_park(image).ok());
    CHECK(store.bytes() >= books.bytes());
    return image;
}

void SnapshotStage::drop(const ConversationImage& image) {
    session->leave(books.remove(image));
}

RestoreOutcome SnapshotStage::restore(const ConversationImage& image, Position position) {
    const auto good = session->validate(image, position, {});
    INFO((good ? std::string() : good.error().text));
    CHECK(good.ok());
    return session->restore(image, position, {});
}

void SnapshotStage::expect_nothing_left() {
    session->reset();
    CHECK(books.bytes() == 0);
    CHECK(store.blobs() == 0);
    CHECK(store.bytes() == 0);
    CHECK(segments.segments() == 0);
    CHECK(store.mapped_bytes() == 0);
}

}  // namespace strata::tests
