// Copies from the host that go on by themselves on a stream of their own, and what of them the
// device's stream has not been told to wait for.
//
// Invariant: events_[next_, count_) are of stages that nothing on the stream waits for yet; what is
// on it behind wait_for_..() happens behind those stages and all before them.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <cuda_runtime.h>

#include "strata/backend/device.hpp"

namespace strata::cuda {

class Arrivals {
  public:
    // Of this stream's work.
    explicit Arrivals(cudaStream_t stream);
    ~Arrivals();
    Arrivals(const Arrivals&) = delete;
    Arrivals& operator=(const Arrivals&) = delete;

    // As Device's of the same names, behind what is on the stream.
    void start(std::span<const HostCopy> copies, std::span<const CopyStage> stages);
    double finish();

    // What every operation needs.
    void wait_for_first() {
        if (next_ == 0 && count_ > 0) wait_once();
    }
    // For the bytes of pages below this offset.
    void wait_for_rows(std::size_t page_bytes) {
        while (next_ < count_ && (next_ == 0 || page_bytes_[next_ - 1] < page_bytes)) wait_once();
    }
    void wait_for_all() {
        while (next_ < count_) wait_once();
    }

  private:
    void copy(std::span<const HostCopy> copies);
    void mark(std::size_t page_bytes);
    void wait_once();

    cudaStream_t stream_;
    cudaStream_t copying_ = nullptr;
    cudaEvent_t before_ = nullptr;  // what was on the stream before the copies
    cudaEvent_t began_ = nullptr;
    cudaEvent_t ended_ = nullptr;
    std::vector<cudaEvent_t> events_;      // of stages; kept for the next copies
    std::vector<std::size_t> page_bytes_;  // that are there behind the event
    std::size_t count_ = 0;
    std::size_t next_ = 0;
    // One call's arguments, by the columns that it wants.
    std::vector<void*> to_;
    std::vector<const void*> from_;
    std::vector<std::size_t> bytes_;
};

}  // namespace strata::cuda
