// See image_check.hpp.
#include "engine/state/image_check.hpp"

#include <algorithm>
#include <string>
#include <vector>

#include "engine/state/page_rows.hpp"
#include "engine/state/transfer.hpp"

namespace strata {

namespace {

Failure<SnapshotRefusal> invalid(std::string text) {
    return {SnapshotRefusal{SnapshotFault::invalid, std::move(text)}};
}

// A blob of an image, what it must be, and its name in a refusal.
struct Part {
    HostBlob blob;
    std::string name;
    Position begin = 0;
    Position end = 0;      // rows that the image needs of it
    bool is_page = false;  // may hold more rows than the image needs
};

std::vector<Part> parts_of(const ConversationImage& image, Position position) {
    std::vector<Part> parts;
    for (std::size_t i = 0; i < std::min(pages_for(position), image.pages.size()); ++i) {
        const Position begin = static_cast<Position>(i) * kPageTokens;
        parts.push_back({image.pages[i], "page " + std::to_string(i), begin,
                         std::min(begin + kPageTokens, position), true});
    }
    for (const ImageCheckpoint& each : image.checkpoints) {
        const Position at = each.mark.position;
        if (at > position || each.running_state.id == HostBlobId::none) continue;
        parts.push_back({each.running_state, "the checkpoint at " + std::to_string(at), at, at});
    }
    if (position == image.end() && image.end_state.id != HostBlobId::none) {
        parts.push_back({image.end_state, "the end state", position, position});
    }
    return parts;
}

Status<SnapshotRefusal> check_part(const BlobStore& store, const HostBlob& blob,
                                   const std::string& name, std::size_t bytes) {
    const StoredBlob* stored = store.find(blob.id);
    if (stored == nullptr || !(stored->sealed || stored->filling))
        return invalid(name + " is not there");
    if (blob.bytes != bytes || stored->bytes != bytes) {
        return invalid(name + " has " + std::to_string(stored->bytes) + " bytes, not " +
                       std::to_string(bytes));
    }
    return Done{};
}

Status<SnapshotRefusal> check_stamp(const ImageCheck& check, const Part& part,
                                    const PrefixHashes& hashes, Position image_end) {
    const BlobStamp& stamp = check.store.find(part.blob.id)->stamp;
    if (stamp.fingerprint.identity != check.fingerprint.identity) {
        return Failure<SnapshotRefusal>{
            {SnapshotFault::identity,
             part.name + " belongs to another model, K/V format or steering"}};
    }
    if (stamp.fingerprint.geometry != check.fingerprint.geometry) {
        return invalid(part.name + " has another geometry");
    }
    const bool placed =
        stamp.begin == part.begin && (part.is_page ? stamp.end >= part.end : stamp.end == part.end);
    if (!placed) {
        return invalid(part.name + " holds rows " + std::to_string(stamp.begin) + " to " +
                       std::to_string(stamp.end));
    }
    // Of rows beyond the image's end the ids are not known.
    const bool ids_known = stamp.end <= image_end;
    if (stamp.ids_before != hashes.at(stamp.begin) ||
        (ids_known && stamp.ids_through != hashes.at(stamp.end))) {
        return invalid(part.name + " stands for other tokens");
    }
    return Done{};
}

// Of the pages and the state `moved`. The states of checkpoints below are summed up by whoever
// resumes there: most of them nobody does.
Status<SnapshotRefusal> check_sums(const ImageCheck& check, const std::vector<Part>& parts,
                                   HostBlobId moved) {
    std::vector<const Part*> summed;
    std::vector<Pieces> pieces;
    for (const Part& part : parts) {
        const StoredBlob* stored = check.store.find(part.blob.id);
        if (stored->filling || !(part.is_page || part.blob.id == moved)) continue;
        if (!part.is_page) moved = HostBlobId::none;  // a checkpoint at the end is the end state
        summed.push_back(&part);
        pieces.emplace_back(stored->pieces);
    }
    const auto sums = digests_of(pieces, check.threads);
    for (std::size_t i = 0; i < summed.size(); ++i) {
        if (sums[i] == check.store.find(summed[i]->blob.id)->checksum) continue;
        return invalid("the bytes of " + summed[i]->name + " have changed");
    }
    return Done{};
}

}  // namespace

bool resumes_at(const ConversationImage& image, Position position, const Geometry& geometry) {
    if (!image.ids || position < 1 || position > image.end()) return false;
    if (!geometry.recurrent() || position == image.end()) return true;
    return std::ranges::any_of(image.checkpoints, [position](const ImageCheckpoint& each) {
        return each.mark.position == position;
    });
}

HostBlob state_at(const ConversationImage& image, Position position) {
    if (position == image.end()) return image.end_state;
    for (const ImageCheckpoint& each : image.checkpoints) {
        if (each.mark.position == position) return each.running_state;
    }
    return {};
}

Status<SnapshotRefusal> check_shape(const BlobStore& store, const Geometry& geometry,
                                    const ConversationImage& image) {
    if (!image.ids || image.ids->empty()) return invalid("there are no tokens");
    if (image.pages.size() != pages_for(image.end())) {
        return invalid(std::to_string(image.pages.size()) + " pages cannot hold " +
                       std::to_string(image.end()) + " tokens");
    }
    for (std::size_t i = 0; i < image.pages.size(); ++i) {
        const auto name = "page " + std::to_string(i);
        auto good = check_part(store, image.pages[i], name, geometry.page_bytes());
        if (!good) return good;
    }
    for (const ImageCheckpoint& each : image.checkpoints) {
        const Position at = each.mark.position;
        const auto name = "the checkpoint at " + std::to_string(at);
        if (at < 0 || at > image.end()) return invalid(name + " lies beyond the end");
        if (!geometry.recurrent()) continue;
        auto good = check_part(store, each.running_state, name, geometry.state_bytes());
        if (!good) return good;
    }
    if (!geometry.recurrent()) return Done{};
    return check_part(store, image.end_state, "the end state", geometry.state_bytes());
}

Status<SnapshotRefusal> check_image(const ImageCheck& check, const ConversationImage& image,
                                    Position position) {
    auto shape = check_shape(check.store, check.geometry, image);
    if (!shape) return shape;
    if (!resumes_at(image, position, check.geometry)) {
        return invalid("it cannot be resumed at " + std::to_string(position));
    }
    const auto parts = parts_of(image, position);
    const PrefixHashes hashes(*image.ids);
    for (const Part& part : parts) {
        auto stamp = check_stamp(check, part, hashes, image.end());
        if (!stamp) return stamp;
    }
    return check.sums ? check_sums(check, parts, state_at(image, position).id) : Done{};
}

}  // namespace strata
