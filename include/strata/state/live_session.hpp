// The live conversation on the device: its pages of K/V rows, its running state, its ids, its
// checkpoints. Moves bytes and never decides: what to reuse, keep or drop is told to it.
//
// States:
//   VALID    rows [0, frontier) are those of ids(), and the running state is the one after them.
//   INVALID  a forward pass failed half-way or was abandoned: nothing here may be believed. Only
//            reset() leads out, and after an abandoned pass cut_back().
//
// Invariants: (1) frontier() == ids().size(); (2) VALID: pages cover all rows below the frontier;
// (3) every checkpoint lies at or below the frontier; (4) a page belongs to this session alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "strata/backend/tensor.hpp"
#include "strata/core/result.hpp"
#include "strata/core/types.hpp"
#include "strata/model/runner.hpp"
#include "strata/state/checkpoints.hpp"

namespace strata {

enum class PassEnd : std::uint8_t { whole, abandoned };

class LiveSession {
  public:
    // Allocates the running state. `runner` must outlive the session.
    static Result<std::unique_ptr<LiveSession>> open(Runner& runner);

    Position frontier() const { return std::ssize(ids_); }
    std::span<const TokenId> ids() const { return ids_; }
    bool valid() const { return valid_; }
    const Checkpoints& checkpoints() const { return checkpoints_; }
    std::size_t pages() const { return pages_.size(); }

    // An empty, VALID conversation. Pages stay for the next one.
    void reset();

    // Drops every row from `position` on. Preconditions: VALID, 0 <= position <= frontier, and for
    // a model with recurrent layers position is 0, the frontier, or a checkpoint.
    void rewind(Position position);

    // Sees to it that rows [0, rows) have pages. On refusal nothing changed.
    Status<> reserve(Position rows);

    // Reads ids into rows [frontier, frontier + ids.size()) and writes the last row's logits if
    // asked for (Runner::forward). Preconditions: VALID; the rows are reserved. A forward pass that
    // throws leaves the session INVALID; the refusal says what it threw. So does one that the
    // runner's watch abandoned.
    Result<PassEnd> read(std::span<const TokenId> ids, std::span<float> logits);

    // After an abandoned pass: VALID again, at the last position whose state is whole. The frontier
    // of an attention-only model (rows are written from there on), the deepest checkpoint of a
    // model with recurrent layers, else empty.
    void cut_back();

    // Keeps the state at the frontier. On refusal (no memory) nothing changed. Precondition: VALID.
    Status<> keep_checkpoint(CheckpointKind kind);
    void drop_checkpoint(std::size_t index) { checkpoints_.remove(index); }

    // Pages above the frontier: of rewound rows and of reservations that were not used up.
    bool has_spare_pages() const;
    void release_spare_pages();

    SequenceMemory memory() const { return {page_addresses_, running_state_.address()}; }
    const Geometry& geometry() const { return runner_->geometry(); }
    Device& device() const { return runner_->device(); }

  private:
    explicit LiveSession(Runner& runner) : runner_(&runner) {}
    void rewind_to(Position position, bool state_is_there);
    void write_state(std::span<const std::byte> bytes);

    Runner* runner_;
    TokenIds ids_;
    std::vector<Buffer> pages_;
    std::vector<void*> page_addresses_;  // of pages_, in the form a runner takes
    Buffer running_state_;
    Checkpoints checkpoints_;
    bool valid_ = true;
};

}  // namespace strata
