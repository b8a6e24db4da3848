// How the pool's threads meet. The gate is one word, so that joining a loop and closing it exclude
// each other without a lock; the mutex is only taken to sleep and to wake.
#include "engine/backend/cpu/thread_pool.hpp"

#include <algorithm>

#include "strata/core/invariant.hpp"

namespace strata {
namespace {

constexpr std::uint64_t kOpen = std::uint64_t{1} << 31;
constexpr std::uint64_t kLoopStep = std::uint64_t{1} << 32;

std::uint64_t loop_number(std::uint64_t gate) {
    return gate >> 32;
}
bool is_open(std::uint64_t gate) {
    return (gate & kOpen) != 0;
}
std::uint64_t threads_inside(std::uint64_t gate) {
    return gate & (kOpen - 1);
}

void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#else
    std::atomic_signal_fence(std::memory_order_seq_cst);
#endif
}

// Reading the clock costs about as much as this many pauses are worth waiting.
constexpr int kPausesPerClockRead = 32;
// The caller waits for pieces that are running. When they take longer than this many rounds, a
// thread was probably put aside by the host and gets this core.
constexpr int kRoundsBeforeYield = 2000;

}  // namespace

ThreadPool::ThreadPool(int threads) {
    STRATA_INVARIANT(threads >= 1 && threads <= kThreadsMax);
    workers_.reserve(static_cast<std::size_t>(threads - 1));
    for (int worker = 1; worker < threads; ++worker) {
        workers_.emplace_back([this, worker] { worker_loop(worker); });
    }
}

ThreadPool::~ThreadPool() {
    {
        const std::lock_guard<std::mutex> lock(mutex_);
        stop_.store(true);
    }
    wake_.notify_all();
    for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run(std::int64_t n, std::int64_t grain, Piece piece, const void* object) {
    if (n <= 0) return;
    grain = std::max<std::int64_t>(grain, 1);
    if (workers_.empty() || n <= grain) {
        for (std::int64_t begin = 0; begin < n; begin += grain) {
            piece(object, begin, std::min(n, begin + grain), 0);
        }
        return;
    }
    piece_ = piece;
    object_ = object;
    n_ = n;
    grain_ = grain;
    next_.store(0, std::memory_order_relaxed);
    open_and_take_part();
}

void ThreadPool::open_and_take_part() {
    const std::uint64_t closed = gate_.load(std::memory_order_relaxed);
    // Sequentially consistent with the sleeper's count: either this thread sees the sleeper, or the
    // sleeper sees the open gate.
    gate_.store(((loop_number(closed) + 1) * kLoopStep) | kOpen);
    if (sleepers_.load() > 0) {
        { const std::lock_guard<std::mutex> lock(mutex_); }
        wake_.notify_all();
    }
    take_pieces(0);
    gate_.fetch_and(~kOpen, std::memory_order_acq_rel);
    for (int round = 0; threads_inside(gate_.load(std::memory_order_acquire)) != 0; ++round) {
        if (round < kRoundsBeforeYield) {
            pause_briefly();
        } else {
            std::this_thread::yield();
        }
    }
}

void ThreadPool::take_pieces(int worker) {
    const std::int64_t n = n_;
    const std::int64_t grain = grain_;
    for (;;) {
        const std::int64_t begin = next_.fetch_add(grain, std::memory_order_relaxed);
        if (begin >= n) return;
        piece_(object_, begin, std::min(n, begin + grain), worker);
    }
}

void ThreadPool::worker_loop(int worker) {
    std::uint64_t seen_loop = 0;
    while (!stop_.load(std::memory_order_relaxed)) {
        std::uint64_t gate = gate_.load(std::memory_order_acquire);
        if (loop_number(gate) == seen_loop) {
            if (!spin_for_change(seen_loop)) sleep_until_change(seen_loop);
            continue;
        }
        seen_loop = loop_number(gate);
        while (is_open(gate) && loop_number(gate) == seen_loop) {
            if (gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acq_rel)) {
                take_pieces(worker);
                gate_.fetch_sub(1, std::memory_order_release);
                break;
            }
        }
    }
}

bool ThreadPool::spin_for_change(std::uint64_t seen_loop) const {
    const auto give_up = std::chrono::steady_clock::now() + kSpin;
    do {
        for (int i = 0; i < kPausesPerClockRead; ++i) {
            if (loop_number(gate_.load(std::memory_order_relaxed)) != seen_loop) return true;
            pause_briefly();
        }
    } while (std::chrono::steady_clock::now() < give_up);
    return false;
}

void ThreadPool::sleep_until_change(std::uint64_t seen_loop) {
    std::unique_lock<std::mutex> lock(mutex_);
    sleepers_.fetch_add(1);
    wake_.wait(lock, [&] { return stop_.load() || loop_number(gate_.load()) != seen_loop; });
    sleepers_.fetch_sub(1);
}

}  // namespace strata
