// ThreadPool: every index once, pieces that depend on n and grain alone, worker numbers that never
// meet, and no CPU time when idle.
#include "engine/backend/cpu/thread_pool.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <time.h>

namespace strata {
namespace {

using Pieces = std::set<std::pair<std::int64_t, std::int64_t>>;

Pieces pieces_of(ThreadPool& pool, std::int64_t n, std::int64_t grain) {
    Pieces pieces;
    std::mutex mutex;
    pool.parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end, int) {
        const std::lock_guard<std::mutex> lock(mutex);
        pieces.emplace(begin, end);
    });
    return pieces;
}

double process_cpu_seconds() {
    timespec used{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

TEST_CASE("thread pool gives every index to exactly one call") {
    for (const int threads : {1, 2, 3, 8}) {
        ThreadPool pool(threads);
        for (const std::int64_t n : {1, 2, 7, 64, 1000}) {
            for (const std::int64_t grain : {1, 3, 64, 5000}) {
                std::vector<int> calls(static_cast<std::size_t>(n), 0);
                pool.parallel_for(n, grain, [&](std::int64_t begin, std::int64_t end, int) {
                    for (std::int64_t i = begin; i < end; ++i) ++calls[static_cast<std::size_t>(i)];
                });
                CHECK(calls == std::vector<int>(static_cast<std::size_t>(n), 1));
            }
        }
    }
}

TEST_CASE("thread pool cuts the same pieces for any number of threads") {
    const Pieces expected = {{0, 4}, {4, 8}, {8, 10}};
    for (const int threads : {1, 2, 5}) {
        ThreadPool pool(threads);
        CHECK(pieces_of(pool, 10, 4) == expected);
        CHECK(pieces_of(pool, 3, 4) == Pieces{{0, 3}});
    }
}

TEST_CASE("thread pool runs nothing for an empty range and takes a grain of zero as one") {
    ThreadPool pool(2);
    CHECK(pieces_of(pool, 0, 1).empty());
    CHECK(pieces_of(pool, -5, 1).empty());
    CHECK(pieces_of(pool, 2, 0) == Pieces{{0, 1}, {1, 2}});
}

TEST_CASE("thread pool pieces that run together have different worker numbers") {
    constexpr int kThreads = 4;
    ThreadPool pool(kThreads);
    std::vector<std::atomic<int>> inside(kThreads);
    std::atomic<int> clashes{0};
    for (int round = 0; round < 200; ++round) {
        pool.parallel_for(32, 1, [&](std::int64_t, std::int64_t, int worker) {
            if (worker < 0 || worker >= kThreads) {
                ++clashes;
                return;
            }
            if (inside[static_cast<std::size_t>(worker)].fetch_add(1) != 0) ++clashes;
            std::this_thread::yield();
            inside[static_cast<std::size_t>(worker)].fetch_sub(1);
        });
    }
    CHECK(clashes == 0);
}

TEST_CASE("thread pool shares a loop whose pieces wait for each other") {
    ThreadPool pool(2);
    std::atomic<int> arrived{0};
    const auto give_up = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::atomic<bool> met{true};
    pool.parallel_for(2, 1, [&](std::int64_t, std::int64_t, int) {
        ++arrived;
        while (arrived < 2) {
            if (std::chrono::steady_clock::now() > give_up) {
                met = false;
                return;
            }
            std::this_thread::yield();
        }
    });
    CHECK(met);
}

TEST_CASE("thread pool shows the writes of every piece to the caller and to the next loop") {
    ThreadPool pool(3);
    std::vector<std::int64_t> values(300, 0);
    for (int round = 0; round < 2000; ++round) {
        pool.parallel_for(300, 10, [&](std::int64_t begin, std::int64_t end, int) {
            // Each piece reads what another piece wrote in the loop before.
            for (std::int64_t i = begin; i < end; ++i) values[static_cast<std::size_t>(i)] += 1;
        });
        std::int64_t total = 0;
        for (const std::int64_t value : values) total += value;
        REQUIRE(total == 300 * (round + 1));
    }
}

TEST_CASE("thread pool wakes threads that went to sleep") {
    ThreadPool pool(2);
    for (int round = 0; round < 5; ++round) {
        std::this_thread::sleep_for(4 * ThreadPool::kSpin + std::chrono::milliseconds(2));
        CHECK(pieces_of(pool, 8, 1).size() == 8);
    }
}

TEST_CASE("thread pool uses no processor time when idle") {
    ThreadPool pool(4);
    CHECK(pieces_of(pool, 64, 1).size() == 64);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // past the spin
    const double before = process_cpu_seconds();
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    // Three spinning threads would use 0.3 s or more on two cores.
    CHECK(process_cpu_seconds() - before < 0.03);
}

TEST_CASE("thread pool ends while its threads spin and while they sleep") {
    for (int round = 0; round < 50; ++round) {
        ThreadPool pool(3);
        CHECK(pieces_of(pool, 6, 1).size() == 6);
        if (round % 10 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
}

}  // namespace
}  // namespace strata
