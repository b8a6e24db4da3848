// See sim_session.hpp.
#include "sim_session.hpp"

#include <algorithm>
#include <utility>

namespace strata::tests {

namespace {

constexpr std::size_t kCheckpointsMax = 4;

std::size_t pages_for(Position rows) {
    return static_cast<std::size_t>((rows + kSimPageTokens - 1) / kSimPageTokens);
}

}  // namespace

void SimSession::begin(Identity identity, const PromptMarks& marks, std::uint64_t conversation) {
    ids_.clear();
    checkpoints_.clear();
    pages_.clear();
    identity_ = std::move(identity);
    marks_ = marks;
    conversation_ = conversation;
}

void SimSession::write(TokenId id) {
    ids_.push_back(id);
    pages_.resize(pages_for(std::ssize(ids_)));
    pages_.back() = {};
}

void SimSession::keep_checkpoint(CheckpointKind kind) {
    const Position end = std::ssize(ids_);
    if (end == 0) return;
    std::erase_if(checkpoints_, [&](const ImageCheckpoint& each) {
        return each.mark.position == end ||
               (kind == CheckpointKind::tail && each.mark.kind == CheckpointKind::tail);
    });
    if (checkpoints_.size() == kCheckpointsMax) checkpoints_.erase(checkpoints_.begin());
    const HostBlob blob = shape_.recurrent ? name(shape_.state_bytes, true) : HostBlob{};
    checkpoints_.push_back({{kind, end}, 0, blob});
}

void SimSession::rewind(Position position) {
    ids_.resize(static_cast<std::size_t>(position));
    pages_.resize(pages_for(position));
    if (position % kSimPageTokens != 0) pages_.back() = {};
    std::erase_if(checkpoints_,
                  [&](const ImageCheckpoint& each) { return each.mark.position > position; });
}

void SimSession::load(const ConversationImage& image, Position position) {
    ids_ = *image.ids;
    identity_ = image.identity;
    marks_ = image.marks;
    checkpoints_ = image.checkpoints;
    pages_ = image.pages;
    conversation_ = image.conversation;
    if (position < image.end()) rewind(position);
}

SharedImage SimSession::describe() {
    auto image = std::make_shared<ConversationImage>();
    image->conversation = conversation_;
    image->ids = std::make_shared<const TokenIds>(ids_);
    image->identity = identity_;
    image->marks = marks_;
    image->checkpoints = checkpoints_;
    image->pages = pages_;
    for (HostBlob& page : image->pages) {
        if (page.id == HostBlobId::none) page = name(shape_.page_bytes, false);
    }
    if (shape_.recurrent) image->end_state = name(shape_.state_bytes, false);
    return image;
}

void SimSession::forget(std::span<const HostBlobId> left) {
    for (HostBlob& page : pages_) {
        if (std::binary_search(left.begin(), left.end(), page.id)) page = {};
    }
}

std::vector<HostBlob> SimSession::clean_pages() const {
    std::vector<HostBlob> clean;
    std::copy_if(pages_.begin(), pages_.end(), std::back_inserter(clean),
                 [](const HostBlob& page) { return page.id != HostBlobId::none; });
    return clean;
}

std::vector<Position> SimSession::points() const {
    std::vector<Position> points;
    for (const ImageCheckpoint& each : checkpoints_) points.push_back(each.mark.position);
    return points;
}

std::vector<CheckpointMark> SimSession::marks_of_checkpoints() const {
    std::vector<CheckpointMark> marks;
    for (const ImageCheckpoint& each : checkpoints_) marks.push_back(each.mark);
    return marks;
}

LiveHolding SimSession::holding() const {
    return {outline_of(ids_, identity_.steering, marks_, marks_of_checkpoints()), clean_pages()};
}

}  // namespace strata::tests
