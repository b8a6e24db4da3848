// See state/snapshot_stamp.hpp.
#include "strata/state/snapshot_stamp.hpp"

#include <algorithm>

#include <xxhash.h>

#include "strata/core/invariant.hpp"

namespace strata {

namespace {

// Each part with its length, so that no two lists of parts make one text.
void add_part(std::string& text, std::string_view part) {
    text += std::to_string(part.size());
    text += ':';
    text += part;
}

void add_number(std::string& text, std::uint64_t number) {
    add_part(text, std::to_string(number));
}

Digest128 digest_of(std::string_view text) {
    const XXH128_hash_t hash = XXH3_128bits(text.data(), text.size());
    return {hash.low64, hash.high64};
}

std::uint64_t continued(std::uint64_t before, std::span<const TokenId> ids) {
    return XXH3_64bits_withSeed(ids.data(), ids.size_bytes(), before);
}

}  // namespace

SnapshotFingerprint fingerprint_of(const Geometry& geometry, const VocabularyFacts& vocabulary,
                                   std::string_view steering_content) {
    std::string sizes;
    add_number(sizes, kSnapshotLayoutVersion);
    add_number(sizes, static_cast<std::uint64_t>(kPageTokens));
    add_part(sizes, geometry.architecture);
    add_part(sizes, kv_type_name(geometry.kv_type));
    for (const std::size_t size : {geometry.k_row_bytes, geometry.v_row_bytes,
                                   geometry.matrix_state_bytes, geometry.conv_state_bytes}) {
        add_number(sizes, size);
    }
    for (const LayerKind kind : geometry.layers) {
        sizes += kind == LayerKind::recurrent ? 'r' : 'a';
    }
    std::string meaning;
    add_number(meaning, kSnapshotLayoutVersion);
    add_part(meaning, vocabulary.model_id);
    add_part(meaning, kv_type_name(geometry.kv_type));
    add_part(meaning, steering_content);
    return {digest_of(sizes), digest_of(meaning)};
}

PrefixHashes::PrefixHashes(std::span<const TokenId> ids) : ids_(ids) {
    constexpr auto kStep = static_cast<std::size_t>(kPageTokens);
    at_pages_.reserve(ids.size() / kStep + 1);
    at_pages_.push_back(0);
    for (std::size_t done = 0; done + kStep <= ids.size(); done += kStep) {
        at_pages_.push_back(continued(at_pages_.back(), ids.subspan(done, kStep)));
    }
}

std::uint64_t PrefixHashes::at(Position position) const {
    STRATA_INVARIANT(position >= 0 && position <= std::ssize(ids_));
    const auto page = static_cast<std::size_t>(position / kPageTokens);
    const auto rest = static_cast<std::size_t>(position % kPageTokens);
    const std::uint64_t before = at_pages_[page];
    if (rest == 0) return before;
    return continued(before, ids_.subspan(page * static_cast<std::size_t>(kPageTokens), rest));
}

}  // namespace strata
