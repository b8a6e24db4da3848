// The digest of a blob by its definition (state/blob_digest.hpp), computed here once more from
// whole arrays, beside every road by which the store gets one.
#include <algorithm>
#include <numeric>
#include <random>

#include <catch2/catch.hpp>

#include "engine/state/transfer.hpp"
#include "snapshot_fixture.hpp"

namespace strata::tests {
namespace {

constexpr std::size_t kBlock = std::size_t{1} << 20;
constexpr int kManyThreads = 5;

using Bytes = std::vector<std::byte>;

Bytes random_bytes(std::size_t count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    Bytes bytes(count);
    for (std::byte& each : bytes) each = static_cast<std::byte>(random());
    return bytes;
}

// The definition, word for word.
Digest128 defined(const Bytes& bytes) {
    const auto plain = [](const void* at, std::size_t count) {
        const XXH128_hash_t hash = XXH3_128bits(at, count);
        return Digest128{hash.low64, hash.high64};
    };
    if (bytes.size() <= kBlock) return plain(bytes.data(), bytes.size());
    std::vector<std::uint64_t> words;
    for (std::size_t at = 0; at < bytes.size(); at += kBlock) {
        const Digest128 sum = plain(bytes.data() + at, std::min(kBlock, bytes.size() - at));
        words.push_back(sum.low);
        words.push_back(sum.high);
    }
    words.push_back(bytes.size());
    return plain(words.data(), words.size() * sizeof(std::uint64_t));
}

// The same memory in pieces of random sizes; `most` bytes each.
BlobPieces cut(Bytes& bytes, std::size_t most, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    BlobPieces pieces;
    std::span<std::byte> left(bytes);
    while (!left.empty()) {
        const std::size_t count = std::min<std::size_t>(left.size(), 1 + random() % most);
        pieces.push_back(left.first(count));
        left = left.subspan(count);
    }
    return pieces;
}

// A device whose copies beside others are plain ones.
struct PlainAside : FailingDevice {
    PlainAside() { aside = true; }
};

}  // namespace

TEST_CASE("a digest is what its definition says whoever computes it") {
    const std::size_t count =
        GENERATE(1UL, 4096UL, kBlock - 1, kBlock, kBlock + 1, 2 * kBlock, 5 * kBlock + 4097);
    Bytes bytes = random_bytes(count, count);
    const Digest128 expected = defined(bytes);
    FailingDevice device;
    PlainAside aside;
    Bytes on_device = bytes;
    for (const std::size_t most : {count, kBlock, std::size_t{300'000}, std::size_t{70'001}}) {
        const BlobPieces pieces = cut(bytes, most, most);
        BlobDigest in_order;
        for (const auto& piece : pieces) in_order.add(piece);
        CHECK(in_order.digest() == expected);
        const Pieces list(pieces);
        for (const int threads : {1, 2, 3, kManyThreads, 12}) {
            CHECK(digests_of(std::span(&list, 1), threads).front() == expected);
            device.threads = threads;
            std::fill(bytes.begin(), bytes.end(), std::byte{0xee});
            const Moved moved{on_device.data(), list};
            CHECK(copy_to_pieces(device, std::span(&moved, 1)).front() == expected);
            CHECK(bytes == on_device);
        }
        std::fill(bytes.begin(), bytes.end(), std::byte{0xee});
        CHECK(copy_to_pieces_aside(aside, on_device.data(), list) == expected);
        CHECK(bytes == on_device);
    }
}

TEST_CASE("a flipped byte in any block is another digest") {
    Bytes bytes = random_bytes(4 * kBlock + 17, 1);
    const BlobPieces pieces = cut(bytes, 900'000, 2);
    const Pieces list(pieces);
    const auto digest = [&] { return digests_of(std::span(&list, 1), kManyThreads).front(); };
    const Digest128 expected = digest();
    for (std::size_t begin = 0; begin < bytes.size(); begin += kBlock) {
        const std::size_t end = std::min(begin + kBlock, bytes.size());
        for (const std::size_t at : {begin, (begin + end) / 2, end - 1}) {
            bytes[at] ^= std::byte{0x40};
            CHECK(digest() != expected);
            bytes[at] ^= std::byte{0x40};
        }
    }
    CHECK(digest() == expected);
}

TEST_CASE("blocks in another order or number are another digest") {
    Bytes bytes = random_bytes(3 * kBlock, 3);
    const Digest128 expected = defined(bytes);
    const auto second = bytes.begin() + static_cast<std::ptrdiff_t>(kBlock);
    std::swap_ranges(bytes.begin(), second, second);
    BlobDigest swapped;
    swapped.add(bytes);
    CHECK(swapped.digest() != expected);
    std::vector<Digest128> digests;
    for (const std::size_t blocks : {1, 2, 3, 4}) {
        const Bytes zeros(blocks * kBlock);
        BlobDigest sum;
        sum.add(zeros);
        CHECK(std::find(digests.begin(), digests.end(), sum.digest()) == digests.end());
        digests.push_back(sum.digest());
    }
}

TEST_CASE("blobs that are summed up together have each its own digest") {
    std::vector<Bytes> blobs;
    for (const std::size_t count : {kBlock + 5, std::size_t{3}, 3 * kBlock, kBlock, kBlock - 9}) {
        blobs.push_back(random_bytes(count, count));
    }
    std::vector<BlobPieces> pieces;
    for (Bytes& each : blobs) pieces.push_back(cut(each, 500'000, each.size()));
    const std::vector<Pieces> lists(pieces.begin(), pieces.end());
    int steps = 0;
    const auto sums = digests_of(lists, kManyThreads, [&steps] { ++steps; });
    REQUIRE(sums.size() == blobs.size());
    for (std::size_t i = 0; i < blobs.size(); ++i) CHECK(sums[i] == defined(blobs[i]));
    CHECK(steps > 0);
    CHECK(digests_of({}, kManyThreads).empty());
}

TEST_CASE("what is moved to the device in blocks is what the pieces hold") {
    Bytes bytes = random_bytes(3 * kBlock + 100, 4);
    const BlobPieces pieces = cut(bytes, 700'000, 5);
    FailingDevice by_host;
    PlainAside by_itself;
    by_host.threads = GENERATE(1, kManyThreads);
    const bool aside = GENERATE(false, true);
    Bytes on_device(bytes.size() + 1, std::byte{7});
    const Moved moved{on_device.data(), pieces};
    copy_from_pieces(aside ? by_itself : by_host, std::span(&moved, 1));
    CHECK(std::equal(bytes.begin(), bytes.end(), on_device.begin()));
    CHECK(on_device.back() == std::byte{7});
}

}  // namespace strata::tests
