// A device that copies by itself, made to be hard on whoever relies on it: a copy to the host takes
// its bytes at its very end, which comes late or when the test says so.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <mutex>
#include <random>
#include <set>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "../../support/fake_runner.hpp"
#include "engine/state/device_pages.hpp"

namespace strata::tests {

class AsideDevice : public FakeDevice {
  public:
    // With `room_bytes` for pages beyond what DevicePages leaves free.
    explicit AsideDevice(std::size_t room_bytes) : room_bytes_(room_bytes) { aside = true; }

    DeviceFacts facts() const override {
        const std::size_t left = room_bytes_ - std::min(room_bytes_, held_bytes());
        return {"aside", "none", kDeviceSpareBytes + left, 1};
    }
    void copy_to_host_aside(void* to, const void* from_device, std::size_t bytes) override {
        std::unique_lock lock(mutex_);
        ++begun;
        if (sleeps) {
            const auto us = std::chrono::microseconds(random_() % 2000);
            lock.unlock();
            std::this_thread::sleep_for(us);
            lock.lock();
        }
        // A test that forgets its copies ends all the same.
        if (!changed_.wait_for(lock, kPatience, [this] { return !held_; })) std::abort();
        lock.unlock();
        if (fails) fails();
        std::memcpy(to, from_device, bytes);
        ++copied;
    }
    bool lock_pages(void* at, std::size_t) override {
        const std::lock_guard lock(mutex_);
        if (!locked.insert(at).second) std::abort();
        return true;
    }
    void unlock_pages(void* at, std::size_t) noexcept override {
        const std::lock_guard lock(mutex_);
        if (locked.erase(at) != 1) std::abort();
    }

    // No copy to the host ends before let_go().
    void hold() {
        const std::lock_guard lock(mutex_);
        held_ = true;
    }
    void let_go() {
        {
            const std::lock_guard lock(mutex_);
            held_ = false;
        }
        changed_.notify_all();
    }

    std::atomic<int> begun = 0;
    std::atomic<int> copied = 0;
    bool sleeps = false;
    std::function<void()> fails;  // in a copy to the host
    std::set<void*> locked;

  private:
    static constexpr std::chrono::seconds kPatience{20};

    std::size_t room_bytes_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool held_ = false;
    std::mt19937_64 random_{7};
};

}  // namespace strata::tests
