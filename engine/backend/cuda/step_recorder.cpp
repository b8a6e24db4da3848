#include "engine/backend/cuda/step_recorder.hpp"

#include "engine/backend/cuda/fault.hpp"

namespace strata::cuda {

StepRecorder::~StepRecorder() {
    if (graph_ != nullptr) static_cast<void>(cudaGraphExecDestroy(graph_));
}

void StepRecorder::begin(bool record) {
    flush();
    recording_ = record;
}

void StepRecorder::forget_from(std::size_t index) {
    if (graph_ != nullptr) {
        check(cudaGraphExecDestroy(graph_), "freeing a graph");
        graph_ = nullptr;
    }
    calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(index), calls_.end());
}

void StepRecorder::build_graph() {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording a step");
    for (const Call& call : calls_) call.launch();
    check(cudaStreamEndCapture(stream_, &graph), "recording a step");
    const cudaError_t status = cudaGraphInstantiate(&graph_, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    check(status, "building the graph of a step");
}

void StepRecorder::flush() {
    if (!recording_) return;
    recording_ = false;
    const std::size_t count = next_;
    next_ = 0;
    if (count == 0) return;
    if (count < calls_.size() && count != short_) {
        short_ = count;
        for (std::size_t i = 0; i < count; ++i) calls_[i].launch();
        return;
    }
    short_ = 0;
    if (count < calls_.size()) forget_from(count);
    if (graph_ == nullptr) build_graph();
    check(cudaGraphLaunch(graph_, stream_), "starting a step");
}

}  // namespace strata::cuda
