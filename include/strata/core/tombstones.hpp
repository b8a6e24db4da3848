// What was known and is lost: so that the next turn of a lost conversation can say why it is read
// again. A bounded list of values. It explains and never decides: nothing is reused by a hash.
//
// Invariants: (1) at most kTombstonesMax, the oldest goes first; (2) add() and the removals
// allocate nothing.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "strata/core/conversation_image.hpp"
#include "strata/core/types.hpp"

namespace strata {

enum class LossCause : std::uint8_t { evicted, released, budget, floor, invalid, identity };

// A conversation's ids up to `position`, hashed.
struct HashedPoint {
    Position position = 0;
    std::uint64_t hash = 0;
};

// Of a conversation's checkpoints and its end the deepest are remembered: kept checkpoints besides
// the tail are six by default, and the deepest say the most.
inline constexpr std::size_t kTombstonePointsMax = 12;
// More conversations than a day brings, and 256 x about 250 bytes are nothing.
inline constexpr std::size_t kTombstonesMax = 256;

struct Tombstone {
    std::string steering;
    Position tokens = 0;
    LossCause cause = LossCause::evicted;
    std::array<HashedPoint, kTombstonePointsMax>
        points{};  // ascending; unused: position 0, in front

    // Where it last matches: the deepest point at or below `most` that is a prefix of `ids`, 0 =
    // nowhere. `hashes` are the prefix hashes of `ids` (hash_prefixes()).
    [[nodiscard]] Position matched(std::span<const std::uint64_t> hashes, Position most) const;
};

// hashes[p] is the hash of ids[0, p); one more than ids. About 1 ns a token.
[[nodiscard]] std::vector<std::uint64_t> hash_prefixes(std::span<const TokenId> ids);

[[nodiscard]] Tombstone tombstone_of(const ConversationImage& image, LossCause cause);

class Tombstones {
  public:
    Tombstones() { list_.reserve(kTombstonesMax); }
    [[nodiscard]] std::span<const Tombstone> list() const { return list_; }
    void add(Tombstone&& stone) noexcept;
    // Forgets conversations that `hashes` (hash_prefixes()) hold whole: they are here again.
    void forget(std::span<const std::uint64_t> hashes, std::string_view steering) noexcept;

  private:
    std::vector<Tombstone> list_;  // oldest first
};

}  // namespace strata
