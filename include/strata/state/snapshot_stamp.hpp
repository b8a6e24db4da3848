// What a piece of a snapshot says about itself, beside its bytes: which model and settings it was
// computed with, and which ids it stands for. So a snapshot can be checked whole before it is used.
// Owns the fingerprints and the hash of ids; where stamps are kept is state/blob_store's.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/types.hpp"
#include "strata/model/runner.hpp"

namespace strata {

// Layout of pages and running states in host memory (model/geometry.hpp). Another layout, another
// number.
inline constexpr std::uint32_t kSnapshotLayoutVersion = 1;

// XXH3-128.
struct Digest128 {
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    friend bool operator==(const Digest128&, const Digest128&) = default;
};

// `geometry`: sizes and kinds of all layers, element type, page size, layout version: bytes of
// another geometry have no meaning here. `identity`: content of the model file (weights, tokenizer
// and rope: runner.hpp, model_id), element type of K/V, content of the steering: bytes of another
// identity have a meaning, and a wrong one.
struct SnapshotFingerprint {
    Digest128 geometry;
    Digest128 identity;
    friend bool operator==(const SnapshotFingerprint&, const SnapshotFingerprint&) = default;
};

// `steering_content`: a fingerprint of what the steering mode adds; empty = off.
[[nodiscard]] SnapshotFingerprint fingerprint_of(const Geometry& geometry,
                                                 const VocabularyFacts& vocabulary,
                                                 std::string_view steering_content);

// A page: rows [begin, end). A running state: the one at begin == end.
struct BlobStamp {
    SnapshotFingerprint fingerprint;
    Position begin = 0;
    Position end = 0;
    std::uint64_t ids_before = 0;   // hash of ids [0, begin)
    std::uint64_t ids_through = 0;  // hash of ids [0, end)
    friend bool operator==(const BlobStamp&, const BlobStamp&) = default;
};

// Hashes of all prefixes of a list of ids; each costs at most one page of ids. Looks into `ids`.
class PrefixHashes {
  public:
    explicit PrefixHashes(std::span<const TokenId> ids);
    // Hash of ids [0, position). Precondition: 0 <= position <= ids.size().
    [[nodiscard]] std::uint64_t at(Position position) const;

  private:
    std::span<const TokenId> ids_;
    std::vector<std::uint64_t> at_pages_;  // [i]: of ids [0, i * kPageTokens)
};

}  // namespace strata
