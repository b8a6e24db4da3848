// The CPU backend's threads: a fixed set that shares one loop at a time. Owns when they run, spin
// and sleep; knows nothing of what they compute.
//
// Invariants
//  1. parallel_for returns after every index of [0, n) was given to exactly one call of fn.
//  2. The pieces are [0, grain), [grain, 2*grain) ...: they depend on n and grain alone, never on
//  the
//     number of threads. Which thread takes a piece is not fixed, so a result must not depend on
//     it.
//  3. Two pieces that run at the same time have different `worker` numbers, 0 <= worker <
//  threads().
//  4. A thread without work spins for kSpin and then sleeps: an idle pool costs no CPU.
//  5. A thread that wakes too late finds the loop closed and touches nothing of it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace strata {

class ThreadPool {
  public:
    // Long enough to bridge the serial work between two operations of a decode step (measured:
    // under 20 us for models that fit a desktop), short enough not to be seen in a CPU monitor.
    static constexpr std::chrono::microseconds kSpin{50};
    static constexpr int kThreadsMax = 512;  // more than the largest host has cores

    // Precondition: 1 <= threads <= kThreadsMax. The calling thread is one of them.
    explicit ThreadPool(int threads);
    ~ThreadPool();
    ThreadPool(const ThreadPool&) = delete;
    ThreadPool& operator=(const ThreadPool&) = delete;

    int threads() const { return static_cast<int>(workers_.size()) + 1; }

    // Calls fn(begin, end, worker) for the pieces of [0, n), each `grain` long but the last. Waits
    // until all have returned. fn must not throw and must not call parallel_for. One caller at a
    // time.
    template <class Fn>
    void parallel_for(std::int64_t n, std::int64_t grain, const Fn& fn) {
        static_assert(std::is_invocable_v<const Fn&, std::int64_t, std::int64_t, int>);
        run(
            n, grain,
            [](const void* object, std::int64_t begin, std::int64_t end, int worker) {
                (*static_cast<const Fn*>(object))(begin, end, worker);
            },
            &fn);
    }

  private:
    using Piece = void (*)(const void* object, std::int64_t begin, std::int64_t end, int worker);

    void run(std::int64_t n, std::int64_t grain, Piece piece, const void* object);
    void open_and_take_part();
    void take_pieces(int worker);
    void worker_loop(int worker);
    bool spin_for_change(std::uint64_t seen_loop) const;
    void sleep_until_change(std::uint64_t seen_loop);

    // The loop being run; written only while the gate is closed and nobody is inside.
    Piece piece_ = nullptr;
    const void* object_ = nullptr;
    std::int64_t n_ = 0;
    std::int64_t grain_ = 1;
    alignas(64) std::atomic<std::int64_t> next_{0};  // first index nobody has taken
    // Number of the loop << 32 | open << 31 | threads inside. Only workers count as inside.
    alignas(64) std::atomic<std::uint64_t> gate_{0};
    alignas(64) std::atomic<int> sleepers_{0};
    std::atomic<bool> stop_{false};
    std::mutex mutex_;
    std::condition_variable wake_;
    std::vector<std::thread> workers_;
};

}  // namespace strata
