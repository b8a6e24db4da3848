// Scratch rows of one forward pass, taken from one block of device memory and given back all at
// once.
//
// Invariants
//  1. What is taken depends on the order and the sizes of the takes alone: two passes of equally
//  many
//     rows get the same addresses (a device may replay a recorded pass).
//  2. Every start lies on kArenaAlignment.
#pragma once

#include <cstddef>
#include <cstdint>

#include "strata/backend/tensor.hpp"
#include "strata/core/invariant.hpp"

namespace strata {

inline constexpr std::int64_t kArenaAlignment = 16;  // floats: one cache line

inline constexpr std::int64_t arena_floats(std::int64_t floats) {
    return (floats + kArenaAlignment - 1) / kArenaAlignment * kArenaAlignment;
}

class Arena {
  public:
    Arena() = default;
    explicit Arena(Buffer memory) : memory_(std::move(memory)) {}

    float* floats(std::int64_t count) {
        float* out = memory_.f32() + used_;
        used_ += arena_floats(count);
        STRATA_INVARIANT(static_cast<std::size_t>(used_) * sizeof(float) <= memory_.bytes());
        return out;
    }
    Rows rows(std::int64_t count, std::int64_t cols) { return {floats(count * cols), count, cols}; }

    // Gives back, when it ends, what was taken since it began.
    class Scope {
      public:
        explicit Scope(Arena& arena) : arena_(arena), mark_(arena.used_) {}
        ~Scope() { arena_.used_ = mark_; }
        Scope(const Scope&) = delete;
        Scope& operator=(const Scope&) = delete;

      private:
        Arena& arena_;
        std::int64_t mark_;
    };

  private:
    Buffer memory_;
    std::int64_t used_ = 0;  // floats
};

}  // namespace strata
