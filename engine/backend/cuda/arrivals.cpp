#include "engine/backend/cuda/arrivals.hpp"

#include <algorithm>
#include <cstdint>

#include "engine/backend/cuda/fault.hpp"

namespace strata::cuda {
namespace {

cudaEvent_t order_event() {
    cudaEvent_t event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "creating an event");
    return event;
}

cudaEvent_t timing_event() {
    cudaEvent_t event = nullptr;
    check(cudaEventCreate(&event), "creating an event");
    return event;
}

}  // namespace

Arrivals::Arrivals(cudaStream_t stream) : stream_(stream) {
    check(cudaStreamCreateWithFlags(&copying_, cudaStreamNonBlocking), "creating a stream");
    before_ = order_event();
    began_ = timing_event();
    ended_ = timing_event();
}

Arrivals::~Arrivals() {
    static_cast<void>(cudaStreamSynchronize(copying_));
    for (const cudaEvent_t event : events_) static_cast<void>(cudaEventDestroy(event));
    for (const cudaEvent_t event : {before_, began_, ended_}) {
        static_cast<void>(cudaEventDestroy(event));
    }
    static_cast<void>(cudaStreamDestroy(copying_));
}

void Arrivals::start(std::span<const HostCopy> copies, std::span<const CopyStage> stages) {
    wait_for_all();
    count_ = 0;
    next_ = 0;
    // What was asked for before may still read what is overwritten now.
    check(cudaEventRecord(before_, stream_), "marking the work before copies");
    check(cudaStreamWaitEvent(copying_, before_, 0), "ordering copies");
    check(cudaEventRecord(began_, copying_), "marking the beginning of copies");
    std::size_t done = 0;
    for (const CopyStage& stage : stages) {
        copy(copies.subspan(done, stage.copies - done));
        mark(stage.page_bytes);
        done = stage.copies;
    }
    if (done < copies.size() || stages.empty()) {
        copy(copies.subspan(done));
        mark(SIZE_MAX);
    }
    check(cudaEventRecord(ended_, copying_), "marking the end of copies");
}

// One call for all of them: as calls of their own, thousands would fill the driver's queue, and the
// thread would wait in it.
void Arrivals::copy(std::span<const HostCopy> copies) {
    if (copies.empty()) return;
    to_.clear();
    from_.clear();
    bytes_.clear();
    for (const HostCopy& each : copies) {
        to_.push_back(each.to_device);
        from_.push_back(each.from);
        bytes_.push_back(each.bytes);
    }
    cudaMemcpyAttributes attributes{};
    attributes.srcAccessOrder = cudaMemcpySrcAccessOrderStream;
    std::size_t first = 0;
    check(cudaMemcpyBatchAsync(to_.data(), from_.data(), bytes_.data(), copies.size(), &attributes,
                               &first, 1, copying_),
          "copies from the host");
}

void Arrivals::mark(std::size_t page_bytes) {
    if (count_ == events_.size()) {
        events_.push_back(order_event());
        page_bytes_.push_back(0);
    }
    check(cudaEventRecord(events_[count_], copying_), "marking a stage of copies");
    page_bytes_[count_++] = page_bytes;
}

void Arrivals::wait_once() {
    check(cudaStreamWaitEvent(stream_, events_[next_], 0), "waiting for copies");
    ++next_;
}

double Arrivals::finish() {
    check(cudaStreamSynchronize(copying_), "copies from the host");
    float ms = 0;
    check(cudaEventElapsedTime(&ms, began_, ended_), "timing copies");
    return static_cast<double>(ms);
}

}  // namespace strata::cuda
