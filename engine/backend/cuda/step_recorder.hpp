// Runs the calls of a step on a stream. Steps of one token are recorded: when a step makes the same
// calls as the one before, in the same order and with the same arguments, its graphs are launched;
// what differs from step to step lies in device memory (StepView). A step has two of them: the
// short one of its first calls is on its way while the host still looks through the others.
//
// Invariants
//  1. Calls happen on the device in the order of run(), wherever flush() falls.
//  2. Behind flush() nothing waits to be enqueued.
//  3. A key names its call wholly: equal keys mean equal launches.
//  4. A step that is the beginning of the recorded one runs call by call: it was abandoned, or less
//     was wanted of its last row. The second of the same length in a row is the recorded one.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuda_runtime.h>

#include "strata/core/invariant.hpp"

namespace strata::cuda {

// Which call, and all its arguments.
class CallKey {
  public:
    explicit CallKey(std::uint64_t call) { add(call); }

    template <class T>
    CallKey& operator<<(T value) {
        if constexpr (std::is_pointer_v<T>) {
            add(reinterpret_cast<std::uintptr_t>(value));
        } else if constexpr (std::is_same_v<T, double>) {
            add(std::bit_cast<std::uint64_t>(value));
        } else if constexpr (std::is_same_v<T, float>) {
            add(std::bit_cast<std::uint32_t>(value));
        } else {
            add(static_cast<std::uint64_t>(value));
        }
        return *this;
    }
    bool operator==(const CallKey& other) const {
        if (count_ != other.count_) return false;
        for (std::size_t i = 0; i < count_; ++i) {
            if (words_[i] != other.words_[i]) return false;
        }
        return true;
    }

  private:
    static constexpr std::size_t kWordsMax = 64;  // the longest call has twice four projections

    void add(std::uint64_t word) {
        STRATA_INVARIANT(count_ < kWordsMax);
        words_[count_++] = word;
    }

    std::array<std::uint64_t, kWordsMax> words_;
    std::size_t count_ = 0;
};

class StepRecorder {
  public:
    explicit StepRecorder(cudaStream_t stream) : stream_(stream) {}
    ~StepRecorder();
    StepRecorder(const StepRecorder&) = delete;
    StepRecorder& operator=(const StepRecorder&) = delete;

    // A new step. `record`: it is worth a graph.
    void begin(bool record);
    // `launch` enqueues on the stream; it is kept while the call may be replayed.
    template <class Launch>
    void run(const CallKey& key, Launch launch) {
        if (!recording_) {
            launch();
            return;
        }
        if (next_ < calls_.size() && calls_[next_].key == key) {
            if (++next_ == head_.end && head_.graph != nullptr) start(head_);
            return;
        }
        forget_from(next_);
        calls_.push_back({key, std::move(launch)});
        ++next_;
    }
    void flush();
    bool recording() const { return recording_; }

  private:
    struct Call {
        CallKey key;
        std::function<void()> launch;
    };
    // Calls [begin, end) as a graph; null = not built.
    struct Part {
        std::size_t begin = 0;
        std::size_t end = 0;
        cudaGraphExec_t graph = nullptr;
    };
    // So many calls take the device longer than the host needs for all the others.
    static constexpr std::size_t kHeadCalls = 12;

    void forget_from(std::size_t index);
    void build(Part& part, std::size_t begin, std::size_t end);
    void start(const Part& part);
    static void free_graph(Part& part);

    cudaStream_t stream_;
    std::vector<Call> calls_;
    std::size_t next_ = 0;     // calls_[0, next_) are those of the step
    std::size_t started_ = 0;  // calls_[0, started_) of them are on the stream
    std::size_t short_ = 0;    // calls of the last step, if it was shorter than calls_; 0 = not
    bool recording_ = false;
    Part head_;  // of the calls_ that are there
    Part rest_;
};

}  // namespace strata::cuda
