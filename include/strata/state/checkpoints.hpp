// The checkpoints that a live conversation holds: positions, and for a model with recurrent layers
// the image of the running state there. Keeps the images alive (state/blob_store.hpp); which of
// them must go is core/checkpoint_rule's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "strata/core/checkpoint_rule.hpp"
#include "strata/core/types.hpp"
#include "strata/state/blob_store.hpp"

namespace strata {

// A running state in host memory (layout: model/geometry.hpp); empty on an attention-only model.
using StateImage = BlobHold;

// Invariants: (1) no two checkpoints besides the tail share a position; (2) at most one is the
// tail; (3) marks()[i] and held()[i] speak of the same checkpoint.
class Checkpoints {
  public:
    std::span<const CheckpointMark> marks() const { return marks_; }
    std::span<const HeldCheckpoint> held() const { return held_; }
    std::size_t size() const { return held_.size(); }
    // Those besides the tail: what --prompt-cache counts.
    std::int64_t counted() const;

    // Adds one. One of the same position (besides the tail) keeps the stronger kind; a tail
    // replaces the tail. Throws std::bad_alloc, and then nothing changed.
    void add(CheckpointMark mark, StateImage image);
    // As add(), of a mark that was used before: `last_used` tells the order among those put back.
    void put_back(const HeldCheckpoint& held, StateImage image);
    void remove(std::size_t index);
    void remove_beyond(Position position);
    void clear();
    // The image at `position`, the newest one; empty when there is none.
    [[nodiscard]] StateImage at(Position position) const;
    // Those at `position` were just used.
    void use(Position position);
    // Every checkpoint of this image.
    void remove_image(HostBlobId image);
    bool has(Position position) const;
    // Position of the deepest one; 0 = there is none.
    Position deepest() const;
    // The name of the image of checkpoint `index`; none on an attention-only model.
    const HostBlob& image(std::size_t index) const { return images_[index].blob(); }

  private:
    std::vector<CheckpointMark> marks_;
    std::vector<HeldCheckpoint> held_;
    std::vector<StateImage> images_;
    std::uint64_t ticks_ = 0;
};

}  // namespace strata
