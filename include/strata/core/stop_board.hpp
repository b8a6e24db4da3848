// Which requests are asked to end. expect() and stop() come from the thread that reads lines,
// begin() and end() from the one that generates. A request is on the board from the moment its line
// was read, so that a STOP which comes before it began is not lost.
//
// Invariants: (1) every expected request is on the board until it ends or is forgotten; (2) at most
// one entry has begun; (3) after stop_all() every request, also a later one, counts as stopped.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace strata {

class StopBoard {
  public:
    using Flag = std::shared_ptr<std::atomic<bool>>;

    void expect(std::uint64_t id) {
        const std::lock_guard lock(mutex_);
        add(id);
    }

    void forget(std::uint64_t id) {
        const std::lock_guard lock(mutex_);
        const auto waiting = std::find_if(entries_.rbegin(), entries_.rend(),
                                          [id](const Entry& e) { return e.id == id && !e.begun; });
        if (waiting != entries_.rend()) entries_.erase(std::next(waiting).base());
    }

    // The request begins: its flag, set already if a STOP came first.
    Flag begin(std::uint64_t id) {
        const std::lock_guard lock(mutex_);
        auto entry = std::find_if(entries_.begin(), entries_.end(),
                                  [id](const Entry& e) { return e.id == id && !e.begun; });
        if (entry == entries_.end()) {
            add(id);
            entry = std::prev(entries_.end());
        }
        entry->begun = true;
        return entry->flag;
    }

    void end() {
        const std::lock_guard lock(mutex_);
        std::erase_if(entries_, [](const Entry& e) { return e.begun; });
    }

    void stop(std::optional<std::uint64_t> id) {
        const std::lock_guard lock(mutex_);
        const auto entry = std::find_if(entries_.begin(), entries_.end(),
                                        [id](const Entry& e) { return !id || e.id == *id; });
        if (entry != entries_.end()) *entry->flag = true;
    }

    void stop_all() {
        const std::lock_guard lock(mutex_);
        all_ = true;
        for (const Entry& entry : entries_) *entry.flag = true;
    }

  private:
    struct Entry {
        std::uint64_t id;
        Flag flag;
        bool begun = false;
    };
    void add(std::uint64_t id) {
        entries_.push_back({id, std::make_shared<std::atomic<bool>>(all_), false});
    }

    std::mutex mutex_;
    std::vector<Entry> entries_;  // in the order in which their lines came
    bool all_ = false;
};

}  // namespace strata
