// The step's ids, position, pages and running state in device memory, where kernels read them.
#pragma once

#include <cstddef>

#include <cuda_runtime.h>

#include "engine/backend/cuda/launch/step_view.hpp"
#include "strata/backend/ops.hpp"

namespace strata::cuda {

class StepMemory {
  public:
    explicit StepMemory(cudaStream_t stream) : stream_(stream) {}
    ~StepMemory();
    StepMemory(const StepMemory&) = delete;
    StepMemory& operator=(const StepMemory&) = delete;

    // Leaves `step` on the host, where take() finds it. Addresses stay until a step has more ids or
    // pages than any before it. Throws std::bad_alloc.
    void write(const Step& step);
    // Enqueues the copy of what was written; bytes() of it.
    void take() const;
    // All that was enqueued is done: the host's block may be written again.
    void settle() { taken_ = true; }
    const StepView& view() const { return view_; }
    std::size_t bytes() const { return used_; }

  private:
    void grow(std::size_t ids, std::size_t pages);

    cudaStream_t stream_;
    std::byte* host_ = nullptr;  // page-locked, laid out as the device block: head, pages, ids
    std::byte* device_ = nullptr;
    std::size_t id_room_ = 0;
    std::size_t page_room_ = 0;
    std::size_t used_ = 0;
    bool taken_ = true;  // no: the device may still read the host's block
    StepView view_;
};

}  // namespace strata::cuda
