// See blob_digest.hpp.
#include "engine/state/blob_digest.hpp"

#include <bit>

namespace strata {

namespace {

static_assert(std::endian::native == std::endian::little);

Digest128 closed(ByteSum& whole, std::uint64_t bytes) {
    whole.add(std::as_bytes(std::span(&bytes, 1)));
    return whole.digest();
}

}  // namespace

Digest128 digest_of_blocks(std::span<const Digest128> blocks, std::uint64_t bytes) {
    if (blocks.size() == 1) return blocks.front();
    ByteSum whole;
    whole.add(std::as_bytes(blocks));
    return closed(whole, bytes);
}

void BlobDigest::add(std::span<const std::byte> bytes) {
    bytes_ += bytes.size();
    while (!bytes.empty()) {
        if (in_block_ == kDigestBlockBytes) {
            const Digest128 sum = block_.digest();
            whole_.add(std::as_bytes(std::span(&sum, 1)));
            block_ = {};
            in_block_ = 0;
        }
        const std::size_t count = std::min(kDigestBlockBytes - in_block_, bytes.size());
        block_.add(bytes.first(count));
        in_block_ += count;
        bytes = bytes.subspan(count);
    }
}

Digest128 BlobDigest::digest() const {
    const Digest128 last = block_.digest();
    if (bytes_ <= kDigestBlockBytes) return last;
    ByteSum whole = whole_;
    whole.add(std::as_bytes(std::span(&last, 1)));
    return closed(whole, bytes_);
}

BlockList::BlockList(std::span<const Pieces> blobs) : blobs_(blobs) {
    for (std::size_t blob = 0; blob < blobs.size(); ++blob) {
        std::size_t bytes = 0;
        for (const auto& piece : blobs[blob]) bytes += piece.size();
        bytes_ += bytes;
        for (std::size_t begin = 0; begin < bytes; begin += kDigestBlockBytes) {
            blocks_.push_back({blob, begin, std::min(begin + kDigestBlockBytes, bytes)});
        }
    }
    sums_.resize(blocks_.size());
}

std::vector<Digest128> BlockList::digests() const {
    std::vector<Digest128> digests;
    digests.reserve(blobs_.size());
    for (std::size_t first = 0; first < blocks_.size();) {
        std::size_t end = first;
        while (end < blocks_.size() && blocks_[end].blob == blocks_[first].blob) ++end;
        digests.push_back(
            digest_of_blocks(std::span(sums_).subspan(first, end - first), blocks_[end - 1].end));
        first = end;
    }
    return digests;
}

}  // namespace strata
