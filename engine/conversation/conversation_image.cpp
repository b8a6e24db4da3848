// See core/conversation_image.hpp.
#include "strata/core/conversation_image.hpp"

#include <algorithm>

namespace strata {

namespace {

ConversationOutline outline(std::span<const TokenId> ids, std::string_view steering,
                            const PromptMarks& marks) {
    ConversationOutline out;
    out.ids = ids;
    out.steering = steering;
    out.first_turn = marks.first_turn;
    return out;
}

void add_point(ConversationOutline& out, const CheckpointMark& mark) {
    out.points.push_back(mark.position);
    if (mark.kind != CheckpointKind::tail) out.deepest = std::max(out.deepest, mark.position);
}

}  // namespace

std::vector<HostBlob> image_blobs(const ConversationImage& image) {
    std::vector<HostBlob> blobs = image.pages;
    blobs.reserve(blobs.size() + image.checkpoints.size() + 1);
    for (const ImageCheckpoint& each : image.checkpoints) blobs.push_back(each.running_state);
    blobs.push_back(image.end_state);
    return holder_blobs(std::move(blobs));
}

ConversationOutline outline_of(const ConversationImage& image) {
    ConversationOutline out = outline(*image.ids, image.identity.steering, image.marks);
    for (const ImageCheckpoint& each : image.checkpoints) add_point(out, each.mark);
    return out;
}

ConversationOutline outline_of(std::span<const TokenId> ids, std::string_view steering,
                               const PromptMarks& marks,
                               std::span<const CheckpointMark> checkpoints) {
    ConversationOutline out = outline(ids, steering, marks);
    for (const CheckpointMark& each : checkpoints) add_point(out, each);
    return out;
}

bool superseded(const ConversationOutline& old, const ConversationOutline& by) {
    const Position deepest = old.deepest;
    if (deepest == 0 || deepest < old.first_turn || old.steering != by.steering) return false;
    const Position by_end = std::ssize(by.ids);
    const bool at_a_point = deepest == by_end || std::find(by.points.begin(), by.points.end(),
                                                           deepest) != by.points.end();
    if (!at_a_point || deepest > by_end || deepest > std::ssize(old.ids)) return false;
    const auto count = static_cast<std::size_t>(deepest);
    return std::ranges::equal(old.ids.first(count), by.ids.first(count));
}

Position last_turn_begins(const ConversationImage& image) {
    if (image.marks.last_turn > 0) return image.marks.last_turn;
    const Position deepest = outline_of(image).deepest;
    return deepest > 0 ? deepest : image.end();
}

}  // namespace strata
