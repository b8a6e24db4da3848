// The checksum of a blob, and how its work is shared. Knows bytes and no blob store.
//
// A blob is cut into blocks of kDigestBlockBytes, counted from its beginning, however its pieces
// lie; the last one may be shorter.
//
//   one block     its XXH3-128
//   more          XXH3-128 over the blocks' XXH3-128 in order, each as two u64 (low, high), and the
//                 blob's bytes as u64; all little-endian
//
// So the digest is the same whoever sums up which block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#define XXH_STATIC_LINKING_ONLY  // the state of a sum as a value
#include <xxhash.h>

#include "strata/state/snapshot_stamp.hpp"

namespace strata {

// 0.1 to 0.15 ms of one thread: so a state of 75 MB is spread evenly over twelve.
inline constexpr std::size_t kDigestBlockBytes = std::size_t{1} << 20;

// The memory of one blob, one piece after the other.
using Pieces = std::span<const std::span<std::byte>>;

// XXH3-128 of bytes that come in order.
class ByteSum {
  public:
    ByteSum() { XXH3_128bits_reset(&state_); }
    void add(std::span<const std::byte> bytes) {
        XXH3_128bits_update(&state_, bytes.data(), bytes.size());
    }
    [[nodiscard]] Digest128 digest() const {
        const XXH128_hash_t hash = XXH3_128bits_digest(&state_);
        return {hash.low64, hash.high64};
    }

  private:
    XXH3_state_t state_;
};

// The digest of a blob of `bytes` bytes from its blocks' sums, at least one.
[[nodiscard]] Digest128 digest_of_blocks(std::span<const Digest128> blocks, std::uint64_t bytes);

// The digest of a blob whose bytes come in order.
class BlobDigest {
  public:
    void add(std::span<const std::byte> bytes);
    [[nodiscard]] Digest128 digest() const;

  private:
    ByteSum block_;  // the last one
    ByteSum whole_;  // over those before it
    std::size_t in_block_ = 0;
    std::uint64_t bytes_ = 0;
};

// Some blobs, cut into blocks that are numbered through all of them: what threads share. Each block
// is one thread's.
class BlockList {
  public:
    // The pieces must outlive the list. Throws std::bad_alloc.
    explicit BlockList(std::span<const Pieces> blobs);

    [[nodiscard]] std::size_t size() const { return blocks_.size(); }
    [[nodiscard]] std::size_t bytes() const { return bytes_; }
    [[nodiscard]] std::size_t blob_of(std::size_t block) const { return blocks_[block].blob; }
    // Calls visit(offset in the blob, bytes) for the parts of the block, none longer than `most`.
    template <class Visit>
    void for_each_part(std::size_t block, std::size_t most, const Visit& visit) const;

    void set_sum(std::size_t block, const Digest128& sum) { sums_[block] = sum; }
    // The blobs' digests, when every sum is set. Throws std::bad_alloc.
    [[nodiscard]] std::vector<Digest128> digests() const;

  private:
    struct Block {
        std::size_t blob = 0;
        std::size_t begin = 0;  // in the blob
        std::size_t end = 0;
    };
    std::span<const Pieces> blobs_;
    std::vector<Block> blocks_;
    std::vector<Digest128> sums_;
    std::size_t bytes_ = 0;
};

template <class Visit>
void BlockList::for_each_part(std::size_t block, std::size_t most, const Visit& visit) const {
    const auto& [blob, begin, end] = blocks_[block];
    std::size_t at = begin;
    std::size_t piece_begin = 0;
    for (const auto& piece : blobs_[blob]) {
        const std::size_t piece_end = piece_begin + piece.size();
        while (at < std::min(end, piece_end)) {
            const std::size_t count = std::min({most, end - at, piece_end - at});
            visit(at, piece.subspan(at - piece_begin, count));
            at += count;
        }
        piece_begin = piece_end;
    }
}

}  // namespace strata
