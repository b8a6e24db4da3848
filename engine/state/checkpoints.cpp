// See state/checkpoints.hpp.
#include "strata/state/checkpoints.hpp"

#include <algorithm>

namespace strata {

std::int64_t Checkpoints::counted() const {
    return std::count_if(marks_.begin(), marks_.end(), [](const CheckpointMark& mark) {
        return mark.kind != CheckpointKind::tail;
    });
}

void Checkpoints::add(CheckpointMark mark, StateImage image) {
    marks_.reserve(marks_.size() + 1);  // from here on nothing can fail
    held_.reserve(held_.size() + 1);
    images_.reserve(images_.size() + 1);
    const bool is_tail = mark.kind == CheckpointKind::tail;
    for (std::size_t i = 0; i < marks_.size(); ++i) {
        const bool held_is_tail = marks_[i].kind == CheckpointKind::tail;
        const bool same = !held_is_tail && !is_tail && marks_[i].position == mark.position;
        if (!same && !(held_is_tail && is_tail)) continue;
        if (same) mark.kind = std::max(mark.kind, marks_[i].kind);
        remove(i);
        break;
    }
    marks_.push_back(mark);
    held_.push_back({mark, ++ticks_});
    images_.push_back(std::move(image));
}

void Checkpoints::put_back(const HeldCheckpoint& held, StateImage image) {
    add(held.mark, std::move(image));
    held_.back().last_used = held.last_used;
    ticks_ = std::max(ticks_, held.last_used);
}

void Checkpoints::remove(std::size_t index) {
    const auto at = static_cast<std::ptrdiff_t>(index);
    marks_.erase(marks_.begin() + at);
    held_.erase(held_.begin() + at);
    images_.erase(images_.begin() + at);
}

void Checkpoints::remove_beyond(Position position) {
    for (std::size_t i = marks_.size(); i-- > 0;) {
        if (marks_[i].position > position) remove(i);
    }
}

void Checkpoints::clear() {
    marks_.clear();
    held_.clear();
    images_.clear();
}

StateImage Checkpoints::at(Position position) const {
    for (std::size_t i = marks_.size(); i-- > 0;) {
        if (marks_[i].position == position) return images_[i];
    }
    return {};
}

void Checkpoints::use(Position position) {
    for (HeldCheckpoint& each : held_) {
        if (each.mark.position == position) each.last_used = ++ticks_;
    }
}

void Checkpoints::remove_image(HostBlobId image) {
    for (std::size_t i = images_.size(); i-- > 0;) {
        if (images_[i].id() == image) remove(i);
    }
}

bool Checkpoints::has(Position position) const {
    return std::any_of(marks_.begin(), marks_.end(), [position](const CheckpointMark& mark) {
        return mark.position == position;
    });
}

Position Checkpoints::deepest() const {
    Position deepest = 0;
    for (const CheckpointMark& mark : marks_) deepest = std::max(deepest, mark.position);
    return deepest;
}

}  // namespace strata
