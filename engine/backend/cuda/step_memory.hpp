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

    // Enqueues the copy of `step`. Addresses stay until a step has more ids or pages than any
    // before it. Throws std::bad_alloc.
    void write(const Step& step);
    const StepView& view() const { return view_; }

  private:
    void grow(std::size_t ids, std::size_t pages);

    cudaStream_t stream_;
    cudaEvent_t copied_ = nullptr;  // the host block may be written again
    std::byte* host_ = nullptr;     // page-locked, laid out as the device block: head, pages, ids
    std::byte* device_ = nullptr;
    std::size_t id_room_ = 0;
    std::size_t page_room_ = 0;
    StepView view_;
};

}  // namespace strata::cuda
