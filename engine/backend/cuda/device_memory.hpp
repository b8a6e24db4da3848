// Memory of the device as Buffers, and scratch that grows.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuda_runtime.h>

#include "strata/backend/tensor.hpp"
#include "strata/core/result.hpp"

namespace strata::cuda {

// Zeroed by work enqueued on `stream`; freed with the last owner, after all work on the device.
Result<Buffer> allocate_zeroed(cudaStream_t stream, std::size_t bytes);

// Memory of the host, page-locked, that kernels write at the same address.
Result<Buffer> allocate_on_host(std::size_t bytes);

enum class ScratchUse : std::uint8_t {
    input_codes,
    input_steps,
    input_bf16,
    panel,
    up,
    partials,
    counters,
    scores,
    offsets,
    places,
    tiles,
    hidden,
    hidden_codes,
    hidden_steps,
    results,
    shared_hidden,
    shared_results,
    delta_chunks,
    largest,
    largest_counter,
    shortlist_maxima,
    shortlist_counters,
    count
};

// One block of memory for each use, as large as the largest step wanted it. A block that was
// outgrown stays until trim(): work that is not done may still use it.
class ScratchMemory {
  public:
    explicit ScratchMemory(cudaStream_t stream) : stream_(stream) {}

    // At least `bytes` bytes; zeroed when they are new. Throws std::bad_alloc.
    void* take(ScratchUse use, std::size_t bytes);
    // All work that was enqueued is done.
    void trim() { outgrown_.clear(); }

  private:
    cudaStream_t stream_;
    std::array<Buffer, static_cast<std::size_t>(ScratchUse::count)> blocks_;
    std::vector<Buffer> outgrown_;
};

}  // namespace strata::cuda
