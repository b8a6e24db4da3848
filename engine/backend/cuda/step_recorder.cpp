#include "engine/backend/cuda/step_recorder.hpp"

#include <algorithm>
#include <utility>

#include "engine/backend/cuda/fault.hpp"

namespace strata::cuda {

StepRecorder::~StepRecorder() {
    for (const Part& part : {head_, rest_}) {
        if (part.graph != nullptr) static_cast<void>(cudaGraphExecDestroy(part.graph));
    }
}

void StepRecorder::begin(bool record) {
    flush();
    recording_ = record;
}

void StepRecorder::free_graph(Part& part) {
    if (part.graph != nullptr) check(cudaGraphExecDestroy(part.graph), "freeing a graph");
    part = {};
}

void StepRecorder::forget_from(std::size_t index) {
    free_graph(rest_);
    if (index < head_.end) free_graph(head_);
    calls_.erase(calls_.begin() + static_cast<std::ptrdiff_t>(index), calls_.end());
}

void StepRecorder::build(Part& part, std::size_t begin, std::size_t end) {
    cudaGraph_t graph = nullptr;
    check(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "recording a step");
    for (std::size_t i = begin; i < end; ++i) calls_[i].launch();
    check(cudaStreamEndCapture(stream_, &graph), "recording a step");
    const cudaError_t status = cudaGraphInstantiate(&part.graph, graph, 0);
    static_cast<void>(cudaGraphDestroy(graph));
    check(status, "building the graph of a step");
    part.begin = begin;
    part.end = end;
}

void StepRecorder::start(const Part& part) {
    check(cudaGraphLaunch(part.graph, stream_), "starting a step");
    started_ = part.end;
}

void StepRecorder::flush() {
    if (!recording_) return;
    recording_ = false;
    const std::size_t count = std::exchange(next_, 0);
    const std::size_t started = std::exchange(started_, 0);
    if (count == 0) return;
    if (count < calls_.size() && count != short_) {
        short_ = count;
        for (std::size_t i = started; i < count; ++i) calls_[i].launch();
        return;
    }
    short_ = 0;
    if (count < calls_.size()) forget_from(count);
    if (head_.graph == nullptr) build(head_, 0, std::min(kHeadCalls, count));
    if (started < head_.end) start(head_);
    if (count > head_.end) {
        if (rest_.graph == nullptr) build(rest_, head_.end, count);
        start(rest_);
    }
    started_ = 0;
}

}  // namespace strata::cuda
