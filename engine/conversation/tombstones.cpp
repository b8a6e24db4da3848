// See core/tombstones.hpp.
#include "strata/core/tombstones.hpp"

#include <algorithm>
#include <utility>

namespace strata {

namespace {

// One step of a prefix hash: FNV-1a over the id as one unit, then a mix so that short prefixes
// spread (the finaliser of splitmix64, Steele et al. 2014).
std::uint64_t next_hash(std::uint64_t hash, TokenId id) {
    hash = (hash ^ static_cast<std::uint32_t>(id)) * 0x100000001b3ULL;
    hash = (hash ^ (hash >> 30)) * 0xbf58476d1ce4e5b9ULL;
    return hash ^ (hash >> 27);
}

constexpr std::uint64_t kEmptyHash = 0xcbf29ce484222325ULL;

}  // namespace

std::vector<std::uint64_t> hash_prefixes(std::span<const TokenId> ids) {
    std::vector<std::uint64_t> hashes;
    hashes.reserve(ids.size() + 1);
    hashes.push_back(kEmptyHash);
    for (const TokenId id : ids) hashes.push_back(next_hash(hashes.back(), id));
    return hashes;
}

Position Tombstone::matched(std::span<const std::uint64_t> hashes, Position most) const {
    const Position known = std::min(most, std::ssize(hashes) - 1);
    for (std::size_t i = points.size(); i-- > 0 && points[i].position > 0;) {
        const HashedPoint& point = points[i];
        if (point.position > known) continue;
        if (hashes[static_cast<std::size_t>(point.position)] == point.hash) return point.position;
    }
    return 0;
}

Tombstone tombstone_of(const ConversationImage& image, LossCause cause) {
    std::vector<Position> positions{image.end()};
    for (const ImageCheckpoint& each : image.checkpoints) positions.push_back(each.mark.position);
    std::sort(positions.begin(), positions.end());
    positions.erase(std::unique(positions.begin(), positions.end()), positions.end());

    Tombstone stone{image.identity.steering, image.end(), cause, {}};
    std::size_t free = stone.points.size();
    const auto hashes = hash_prefixes(*image.ids);
    for (std::size_t i = positions.size(); i-- > 0 && free > 0;) {
        if (positions[i] <= 0) break;
        stone.points[--free] = {positions[i], hashes[static_cast<std::size_t>(positions[i])]};
    }
    return stone;
}

void Tombstones::add(Tombstone&& stone) noexcept {
    if (list_.size() == kTombstonesMax) list_.erase(list_.begin());
    list_.push_back(std::move(stone));
}

void Tombstones::forget(std::span<const std::uint64_t> hashes, std::string_view steering) noexcept {
    std::erase_if(list_, [&](const Tombstone& stone) {
        return stone.steering == steering && stone.matched(hashes, stone.tokens) == stone.tokens;
    });
}

}  // namespace strata
